"""Raises when it is asked who it is."""

from kvbench import hookimpl


@hookimpl
def kvbench_engine():
    raise ValueError("this plugin does not know itself")
