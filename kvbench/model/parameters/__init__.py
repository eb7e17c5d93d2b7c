"""How many parameters a model has, by formula from its config, and which of them are what."""

from kvbench.model.parameters.count import Counts, count_parameters

__all__ = ["Counts", "count_parameters"]
