"""Synthetic workloads whose requests stand alone: constant, log-normal, empirical, prefixes."""

from __future__ import annotations

import itertools
import math
import random
from array import array
from collections.abc import Callable, Iterator
from typing import Any

from kvbench.errors import TraceError
from kvbench.workload.arrivals import arrival_times
from kvbench.workload.generate_agents import agent_tree
from kvbench.workload.generate_turns import multi_turn
from kvbench.workload.lengths import log_normal_tokens
from kvbench.workload.replay import trace_of
from kvbench.workload.request import Request
from kvbench.workload.seeds import stream
from kvbench.workload.spec import WorkloadSpec

#: Largest chunk that one hash id stands for, as in the Mooncake traces.
_MAX_CHUNK_TOKENS = 512


def constant(spec: WorkloadSpec, seed: int) -> Iterator[Request]:
    """Yield requests of one length that share nothing."""
    params: dict[str, Any] = dict(spec.params)
    for arrival_ms in itertools.islice(arrival_times(spec, seed), params["requests"]):
        yield Request(
            arrival_ms=arrival_ms,
            prompt_tokens=params["prompt_tokens"],
            output_tokens=params["output_tokens"],
        )


def lognormal(spec: WorkloadSpec, seed: int) -> Iterator[Request]:
    """Yield requests of log-normal lengths that share nothing."""
    params: dict[str, Any] = dict(spec.params)
    prompts, outputs = (_lengths(params, side, stream(seed, side)) for side in ("prompt", "output"))
    times = itertools.islice(arrival_times(spec, seed), params["requests"])
    for arrival_ms, prompt, output in zip(times, prompts, outputs, strict=False):
        yield Request(arrival_ms=arrival_ms, prompt_tokens=prompt, output_tokens=output)


def _lengths(params: dict[str, Any], side: str, rng: random.Random) -> Iterator[int]:
    return log_normal_tokens(
        rng,
        median=params[f"{side}_median_tokens"],
        sigma=params[f"{side}_sigma"],
        largest=params.get(f"{side}_max_tokens"),
    )


def empirical(spec: WorkloadSpec, seed: int) -> Iterator[Request]:
    """Yield requests whose (prompt, output) lengths are drawn with replacement from a trace."""
    pairs = [(request.prompt_tokens, request.output_tokens) for request in trace_of(spec)]
    rng = stream(seed, spec.kind, "lengths")
    for arrival_ms in itertools.islice(arrival_times(spec, seed), _requests(spec)):
        prompt, output = rng.choice(pairs)
        yield Request(arrival_ms=arrival_ms, prompt_tokens=prompt, output_tokens=output)


def _requests(spec: WorkloadSpec) -> int:
    count = spec.params["requests"]
    if not isinstance(count, int):
        raise TraceError(f"workload {spec.name!r}: requests: expected an integer")
    return count


def shared_prefix(spec: WorkloadSpec, seed: int) -> Iterator[Request]:
    """Yield requests that each follow one of a few system prompts with a prompt of their own.

    A hash id stands for the largest power of two of tokens that divides the system prompt, so
    that a chunk never holds both shared and private tokens.
    """
    params: dict[str, Any] = dict(spec.params)
    prefix_tokens = params["prefix_tokens"]
    chunk = math.gcd(prefix_tokens, _MAX_CHUNK_TOKENS)
    prefix_chunks = prefix_tokens // chunk
    fresh = itertools.count(params["prefixes"] * prefix_chunks)
    choices = _prefix_choices(params, stream(seed, spec.kind, "prefixes"))
    prompts, outputs = (
        log_normal_tokens(
            stream(seed, side), median=params[f"{side}_tokens"], sigma=params[f"{side}_sigma"]
        )
        for side in ("prompt", "output")
    )
    times = itertools.islice(arrival_times(spec, seed), params["requests"])
    for arrival_ms, prefix, own, output in zip(times, choices, prompts, outputs, strict=False):
        first = prefix * prefix_chunks
        hash_ids = array("q", range(first, first + prefix_chunks))
        hash_ids.extend(itertools.islice(fresh, -(-own // chunk)))
        yield Request(
            arrival_ms=arrival_ms,
            prompt_tokens=prefix_tokens + own,
            output_tokens=output,
            hash_ids=hash_ids,
            hash_tokens=chunk,
        )


def _prefix_choices(params: dict[str, Any], rng: random.Random) -> Iterator[int]:
    ranks = range(params["prefixes"])
    weights = list(itertools.accumulate((rank + 1) ** -params["zipf"] for rank in ranks))
    while True:
        yield from rng.choices(ranks, cum_weights=weights, k=1)


#: Generators by kind of workload: (spec, seed) -> requests in order of arrival.
GENERATORS: dict[str, Callable[[WorkloadSpec, int], Iterator[Request]]] = {
    "constant": constant,
    "lognormal": lognormal,
    "empirical": empirical,
    "shared_prefix": shared_prefix,
    "multi_turn": multi_turn,
    "agent_tree": agent_tree,
}
