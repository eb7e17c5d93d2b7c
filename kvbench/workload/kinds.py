"""Every kind of workload and the keys of its ``[workloads.NAME]`` table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kvbench.names import did_you_mean
from kvbench.workload.traces import FORMATS


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One key of a workload table.

    Attributes:
        name: The key.
        type: ``int``, ``float`` or ``str``; an integer is a fine float.
        help: One sentence, unit included.
        default: Value when the table is silent; ``None`` leaves the key out.
        required: The table must state it.
        choices: Allowed values, empty for any.
        minimum: Smallest allowed number.
        above: Number that the value must exceed.
        maximum: Largest allowed number.
    """

    name: str
    type: str
    help: str
    default: int | float | str | None = None
    required: bool = False
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of workload.

    Attributes:
        name: Value of the table's ``kind``.
        help: One sentence.
        params: Its keys besides ``kind``.
    """

    name: str
    help: str
    params: tuple[Param, ...]

    @property
    def reads_trace(self) -> bool:
        """Whether the kind needs a trace file."""
        return any(param.name == "path" for param in self.params)


def _tokens(name: str, what: str, **rule: object) -> Param:
    fields: dict[str, object] = {"required": True, "minimum": 1, "maximum": 2**31 - 1, **rule}
    return Param(name=name, type="int", help=f"{what}, in tokens.", **fields)  # type: ignore[arg-type]


def _count(name: str, what: str, **rule: object) -> Param:
    fields: dict[str, object] = {"required": True, "minimum": 1, **rule}
    return Param(name=name, type="int", help=what, **fields)  # type: ignore[arg-type]


def _spread(name: str, what: str) -> Param:
    return Param(name=name, type="float", help=what, default=0.0, minimum=0, maximum=5)


_PATH = Param(
    name="path", type="str", help="Trace file, relative to the suite's folder.", required=True
)
_FORMAT = Param(
    name="format", type="str", help="Format of the trace, detected when left out.", choices=FORMATS
)
_ON_BAD_LINE = Param(
    name="on_bad_line",
    type="str",
    help="Stop at a bad line, or leave it out and count it.",
    default="refuse",
    choices=("refuse", "count"),
)
_LIMIT = _count("limit", "Rows to read; all when left out.", required=False)

ARRIVAL_PARAMS: tuple[Param, ...] = (
    Param(
        name="arrival",
        type="str",
        help="How requests arrive.",
        default="all_at_once",
        choices=("all_at_once", "uniform", "poisson", "gamma", "on_off"),
    ),
    Param(name="rate_per_s", type="float", help="Mean requests per second.", above=0),
    Param(
        name="arrival_cv",
        type="float",
        help="Coefficient of variation of the gaps (gamma); 1 is Poisson, more is burstier.",
        default=2.0,
        above=0,
    ),
    Param(name="on_s", type="float", help="Seconds with arrivals (on_off).", default=10.0, above=0),
    Param(
        name="off_s", type="float", help="Seconds without arrivals (on_off).", default=10.0, above=0
    ),
)

_REQUESTS = _count("requests", "Number of requests.")

_KINDS = (
    Kind(
        name="constant",
        help="Requests of one length that share nothing.",
        params=(
            _REQUESTS,
            _tokens("prompt_tokens", "Prompt"),
            _tokens("output_tokens", "Output"),
            *ARRIVAL_PARAMS,
        ),
    ),
    Kind(
        name="lognormal",
        help="Requests of log-normal lengths that share nothing.",
        params=(
            _REQUESTS,
            _tokens("prompt_median_tokens", "Median of the prompt lengths"),
            _spread("prompt_sigma", "Standard deviation of the logarithm of the prompt lengths."),
            _tokens("prompt_max_tokens", "Longest prompt (longer draws are cut)", required=False),
            _tokens("output_median_tokens", "Median of the output lengths"),
            _spread("output_sigma", "Standard deviation of the logarithm of the output lengths."),
            _tokens("output_max_tokens", "Longest output (longer draws are cut)", required=False),
            *ARRIVAL_PARAMS,
        ),
    ),
    Kind(
        name="empirical",
        help="Requests whose lengths are drawn, as pairs, from a trace; they share nothing.",
        params=(_PATH, _FORMAT, _ON_BAD_LINE, _LIMIT, _REQUESTS, *ARRIVAL_PARAMS),
    ),
    Kind(
        name="shared_prefix",
        help="Requests behind a few shared system prompts.",
        params=(
            _REQUESTS,
            _count("prefixes", "Number of system prompts.", required=False, default=1),
            _tokens("prefix_tokens", "Length of each system prompt"),
            _tokens("prompt_tokens", "Prompt that follows the system prompt"),
            _spread("prompt_sigma", "Standard deviation of the logarithm of that length."),
            _tokens("output_tokens", "Output"),
            _spread("output_sigma", "Standard deviation of the logarithm of the output lengths."),
            Param(
                name="zipf",
                type="float",
                help="Popularity of the system prompts: rank to the power of minus this.",
                default=0.0,
                minimum=0,
                maximum=10,
            ),
            *ARRIVAL_PARAMS,
        ),
    ),
    Kind(
        name="multi_turn",
        help="Conversations; each turn's prompt is all that was said before plus new text.",
        params=(
            _count("conversations", "Number of conversations."),
            _count("turns", "Turns of each conversation."),
            _tokens("system_tokens", "System prompt shared by all", required=False),
            _tokens("prompt_tokens", "New text of each turn"),
            _spread("prompt_sigma", "Standard deviation of the logarithm of that length."),
            _tokens("output_tokens", "Output of each turn"),
            _spread("output_sigma", "Standard deviation of the logarithm of the output lengths."),
            Param(
                name="think_s",
                type="float",
                help="Mean seconds between a turn and the next one of its conversation.",
                default=30.0,
                minimum=0,
            ),
            *ARRIVAL_PARAMS,
        ),
    ),
    Kind(
        name="agent_tree",
        help="Trees of agents: each child forks from its parent's whole context.",
        params=(
            _count("trees", "Number of trees."),
            _count("depth", "Levels below the root.", minimum=0),
            _count("fanout", "Children of each node above the last level."),
            _tokens("root_tokens", "Prompt of the root"),
            _tokens("prompt_tokens", "New text of each child"),
            _tokens("output_tokens", "Output of each node"),
            Param(
                name="step_s",
                type="float",
                help="Seconds between a node's arrival and its children's.",
                default=10.0,
                minimum=0,
            ),
            *ARRIVAL_PARAMS,
        ),
    ),
    Kind(
        name="trace",
        help="The requests of a public trace, with their arrivals and shared prefixes.",
        params=(
            _PATH,
            _FORMAT,
            _ON_BAD_LINE,
            _LIMIT,
            Param(
                name="time_scale",
                type="float",
                help="Factor on the arrival times: below 1 is more load.",
                default=1.0,
                minimum=0,
            ),
        ),
    ),
)

#: Kinds by name.
KINDS: dict[str, Kind] = {kind.name: kind for kind in _KINDS}


def find_problems(kind: str, params: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return every mistake in a workload table as (key, what is wrong and what is expected)."""
    found = KINDS.get(kind)
    if found is None:
        return [("kind", f"unknown kind {kind!r}{did_you_mean(kind, KINDS)}")]
    known = {param.name: param for param in found.params}
    unknown = [
        (key, f"unknown key of a {kind!r} workload{did_you_mean(key, known)}")
        for key in params
        if key not in known
    ]
    checked = (_check(param, params) for param in found.params)
    return [*unknown, *(problem for problem in checked if problem), *_rate_problem(known, params)]


def _check(param: Param, params: Mapping[str, object]) -> tuple[str, str] | None:
    if param.name not in params:
        return (param.name, f"is missing; expected {param.help}") if param.required else None
    value = params[param.name]
    if not _has_type(value, param.type):
        wanted = {"int": "an integer", "float": "a finite number", "str": "a string"}[param.type]
        return param.name, f"is {value!r}; expected {wanted}: {param.help}"
    if param.choices and value not in param.choices:
        return param.name, f"is {value!r}{did_you_mean(str(value), param.choices)}"
    return _check_range(param, value)


def _has_type(value: object, kind: str) -> bool:
    if kind == "str":
        return isinstance(value, str) and value != ""
    if isinstance(value, bool):
        return False
    if kind == "int":
        return isinstance(value, int)
    return isinstance(value, int | float) and math.isfinite(value)


def _check_range(param: Param, value: object) -> tuple[str, str] | None:
    if not isinstance(value, int | float):
        return None
    if param.minimum is not None and value < param.minimum:
        return param.name, f"is {value}; expected at least {param.minimum:g}"
    if param.above is not None and value <= param.above:
        return param.name, f"is {value}; expected more than {param.above:g}"
    if param.maximum is not None and value > param.maximum:
        return param.name, f"is {value}; expected at most {param.maximum:g}"
    return None


def _rate_problem(known: Iterable[str], params: Mapping[str, object]) -> list[tuple[str, str]]:
    if "arrival" not in known:
        return []
    arrival = params.get("arrival", "all_at_once")
    stated = "rate_per_s" in params
    if stated == (arrival != "all_at_once"):
        return []
    if stated:
        idle = "has no effect on arrival = 'all_at_once'; state another arrival, as in 'poisson'"
        return [("rate_per_s", idle)]
    return [("rate_per_s", f"is missing; arrival = {arrival!r} needs the mean requests per second")]


def with_defaults(kind: str, params: Mapping[str, object]) -> dict[str, object]:
    """Return the parameters with the defaults of the keys that were left out, in fixed order."""
    return {
        param.name: params.get(param.name, param.default)
        for param in KINDS[kind].params
        if param.name in params or param.default is not None
    }
