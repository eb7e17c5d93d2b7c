"""What a suite may set for the analytic engine."""

from __future__ import annotations

from kvbench.engine import Option

OPTIONS: tuple[Option, ...] = (
    Option(name="model", type="model", help="Model to size.", required=True),
    Option(
        name="context_tokens",
        type="int",
        help="Tokens that one request holds.",
        default=4096,
        minimum=1,
        monotonic=True,
    ),
    Option(
        name="new_tokens",
        type="int",
        help="Further tokens for which every admitted request must also have room.",
        default=0,
        minimum=0,
        monotonic=True,
    ),
    Option(
        name="requests",
        type="int",
        help="Concurrent requests for which the longest context is asked.",
        default=1,
        minimum=1,
        monotonic=True,
    ),
    Option(
        name="workload",
        type="workload",
        help="Lengths over which fragmentation and resident bytes are averaged.",
    ),
    Option(name="kv_dtype", type="str", help="Element type of the cache.", default="auto"),
    Option(
        name="block_size",
        type="int",
        help="Tokens per block; without it the layout chooses as its engine would.",
        minimum=1,
    ),
    Option(
        name="layout",
        type="str",
        help="How the pool is arranged: paged, or a layout of an engine plugin.",
        default="paged",
    ),
    Option(name="tp", type="int", help="Tensor-parallel ranks.", default=1, minimum=1),
    Option(name="pp", type="int", help="Pipeline-parallel stages.", default=1, minimum=1),
    Option(
        name="budget_bytes",
        type="int",
        help="Bytes for the cache on one rank; without it the device's budget is used.",
        minimum=0,
    ),
    Option(name="device", type="device", help="Device whose memory is the budget."),
    Option(
        name="utilization",
        type="float",
        help="Share of the device's memory the engine may use.",
        default=0.92,
        minimum=0.01,
    ),
    Option(
        name="max_num_batched_tokens",
        type="int",
        help="Token budget of one engine step: what an engine's layout holds in flight, and what "
        "its peak activation grows with.",
        minimum=1,
    ),
    Option(
        name="async_scheduling",
        type="bool",
        help="Whether the engine of the layout schedules a step ahead.",
    ),
    Option(
        name="enable_prefix_caching",
        type="bool",
        help="Whether the engine of the layout keeps full blocks for reuse.",
    ),
)

#: Options that an engine's layout reads under the same name; ``paged`` has none.
LAYOUT_OPTIONS = ("max_num_batched_tokens", "async_scheduling", "enable_prefix_caching")
