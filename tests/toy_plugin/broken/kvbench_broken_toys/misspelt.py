"""Implements a hook that does not exist."""

from kvbench import hookimpl


@hookimpl
def kvbench_mesure(cell, session):
    return None
