"""What a suite may set for the ``triton`` engine."""

from __future__ import annotations

from kvbench.engine import Option, Scope
from kvbench_triton.backend import AUTO, BACKENDS

OPTIONS = (
    Option(name="model", type="model", help="Model whose layer is decoded.", required=True),
    Option(
        name="device", type="device", help="Device whose datasheet bandwidth predicts the floor."
    ),
    Option(
        name="backend",
        type="str",
        help="Where it runs; auto takes the GPU and nothing else.",
        default=AUTO,
        choices=BACKENDS,
        scope=Scope.ENGINE,
    ),
    Option(
        name="layer",
        type="str",
        help="Kind of the layer to decode, auto for the model's first with a cache.",
        default="auto",
        choices=("auto", "full", "sliding", "mla"),
    ),
    Option(
        name="layers",
        type="int",
        help="Layers to allocate a pool for, 0 for all the model has of that kind.",
        default=1,
        minimum=0,
    ),
    Option(
        name="sequences",
        type="int",
        help="Sequences decoded together.",
        default=1,
        minimum=1,
        monotonic=True,
    ),
    Option(
        name="cached_tokens",
        type="int",
        help="Tokens of the cache that a sequence holds.",
        required=True,
        minimum=1,
        monotonic=True,
    ),
    Option(
        name="length_spread",
        type="float",
        help="Lengths vary evenly by up to this share of cached_tokens around it, 0 to 1.",
        default=0.0,
        minimum=0,
    ),
    Option(
        name="block_size",
        type="int",
        help="Tokens per block: 16, 32, 64, 128 or 256.",
        default=16,
        minimum=1,
    ),
    Option(
        name="kv_dtype",
        type="str",
        help="Cache element type: bf16, fp16, fp8_e4m3, int8 (fp32 in the interpreter), or auto.",
        default="auto",
    ),
    Option(
        name="softcap", type="float", help="Soft cap on scores, 0 for none.", default=0.0, minimum=0
    ),
    Option(name="sinks", type="bool", help="Each query head has an attention sink.", default=False),
    Option(
        name="replays",
        type="int",
        help="Graph replays that one repeat samples.",
        default=20,
        minimum=2,
    ),
)
