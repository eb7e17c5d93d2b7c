"""From exceptions to statuses with stable reasons."""

from __future__ import annotations

import dataclasses
import traceback

from kvbench.errors import (
    CellFailed,
    EngineUnavailable,
    KvbenchError,
    ModelError,
    PluginError,
    TraceError,
)
from kvbench.results.schema import Status
from kvbench.runner.messages import Failure

#: Reasons of cells that did not run because of what happened to another one; a resumed run
#: decides anew about them.
DEPENDENT_REASONS = frozenset({"oom_backstop", "stop_axis", "aborted", "not_run"})

_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (TraceError, "workload_refused"),
    (PluginError, "plugin_error"),
    (KvbenchError, "refused"),
)


def failure_of(error: BaseException, wall_s: float = 0.0) -> Failure:
    """Return the status and reason that an exception of a hook stands for.

    A refusal (``EngineUnavailable``, ``ModelError``) leaves the worker as it was; whatever else
    an engine raises may have left it in a state that falsifies the next cell.
    """
    if isinstance(error, EngineUnavailable):
        return _refusal("engine_unavailable", error, wall_s)
    if isinstance(error, ModelError):
        return _refusal("model_refused", error, wall_s)
    return Failure(
        status=Status.FAILED,
        reason=_reason(error),
        error=clean(_words(error)),
        details=clean("".join(traceback.format_exception(error))),
        wall_s=wall_s,
    )


def start_failure_of(error: BaseException, wall_s: float = 0.0) -> Failure:
    """Return what an exception at the start of an engine means for all of its cells."""
    failure = failure_of(error, wall_s)
    if failure.reason != "exception":
        return failure
    return dataclasses.replace(failure, reason="engine_start")


def clean(text: str) -> str:
    """Return ``text`` without what UTF-8 cannot hold (engines print all sorts of bytes)."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _refusal(reason: str, error: Exception, wall_s: float) -> Failure:
    words = clean(str(error)) or reason
    return Failure(
        status=Status.UNSUPPORTED, reason=reason, error=words, poisoned=False, wall_s=wall_s
    )


def _reason(error: BaseException) -> str:
    if isinstance(error, CellFailed):
        return error.reason or "failed"
    # torch and its relatives have their own class of this name; none may be imported here.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return "oom"
    return next((name for kind, name in _REASONS if isinstance(error, kind)), "exception")


def _words(error: BaseException) -> str:
    text = str(error).strip()
    if isinstance(error, KvbenchError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
