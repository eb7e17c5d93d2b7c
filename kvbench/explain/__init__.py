"""Engines' own figures, each derived or contradicted in words."""

from kvbench.explain.finding import Explanation, Finding, Verdict

__all__ = ["Explanation", "Finding", "Verdict"]
