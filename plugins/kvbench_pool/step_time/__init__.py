"""How long a scheduler step lasts: models that turn what a step computes into seconds."""

from kvbench_pool.step_time.models import LogicalSteps, MeasuredConstants, StepTime
from kvbench_pool.step_time.work import Attention, Chunk, StepWork

__all__ = [
    "Attention",
    "Chunk",
    "LogicalSteps",
    "MeasuredConstants",
    "StepTime",
    "StepWork",
]
