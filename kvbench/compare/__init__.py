"""Comparisons and expectations: verdicts from stored samples, with their uncertainty."""
