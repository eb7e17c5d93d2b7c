"""What fits: from a model and devices to blocks, contexts and requests, with an interval."""

from kvbench.fit.answer import Answer, Range, answer
from kvbench.fit.question import Question

__all__ = ["Answer", "Question", "Range", "answer"]
