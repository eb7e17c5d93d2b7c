"""The local executor: worker processes on this machine, one event loop, no threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import wait

from kvbench.runner.executor import Control
from kvbench.runner.group import Group
from kvbench.runner.inline import InlineLane
from kvbench.runner.lane import Lane, ProcessLane
from kvbench.suite.spec import Isolation

#: Longest sleep of the loop: bounds the delay of Ctrl-C, time limits and the journal's sync.
POLL_S = 0.1


class LocalExecutor:
    """Runs up to ``jobs`` groups at once; an exclusive group waits until it is alone."""

    def execute(self, groups: Sequence[Group], control: Control) -> None:
        """Run every group to its end, or until the user stops the run."""
        waiting, active = deque(groups), list[Lane]()
        try:
            while (waiting or active) and not control.stopped():
                while waiting and _may_start(waiting[0], active, control.jobs):
                    active.append(_lane(waiting.popleft(), control))
                _sleep(active)
                active = [lane for lane in active if not lane.advance()]
                control.tick()
        finally:
            for lane in active:
                lane.stop()


def _may_start(group: Group, active: Sequence[Lane], jobs: int) -> bool:
    if not active:
        return True
    return len(active) < jobs and not group.exclusive and not active[0].group.exclusive


def _lane(group: Group, control: Control) -> Lane:
    if group.isolation is Isolation.INLINE:
        return InlineLane(group, control)
    return ProcessLane(group, control)


def _sleep(active: Sequence[Lane]) -> None:
    connections = [lane.connection for lane in active if lane.connection is not None]
    if len(connections) == len(active):
        wait(connections, timeout=POLL_S)
