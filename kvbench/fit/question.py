"""What is asked: a model on devices, under an engine's settings, for some use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kvbench.device.conditions import Conditions, step_defaults
from kvbench.device.spec import DeviceSpec
from kvbench.errors import DeviceError
from kvbench.layout import Layout, LayoutOptions
from kvbench.model.spec import ModelSpec

#: Longest request when neither the user nor the model says.
DEFAULT_CONTEXT = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question about capacity.

    Attributes:
        model: The model.
        device: The accelerator, the same on every rank.
        layout: How the engine arranges the cache.
        gpus: Accelerators in all, 0 for one group of ``tp × pp``.
        tp: Tensor-parallel ranks of one replica.
        pp: Pipeline stages of one replica.
        context: Tokens of the longest request, ``None`` for the model's own limit.
        concurrency: Requests that must run at once.
        lengths: Resident tokens of requests drawn from a workload, empty without one.
        utilization: Share of the device's memory the engine may use.
        kv_dtype: Cache element type, ``auto`` for the model's.
        block_size: Tokens per block, ``None`` for the engine's choice.
        tokens: Tokens of one step, ``None`` for the engine's default on this device.
        sequences: Requests of one step, ``None`` for the same.
        eager: No graphs are captured.
        version: Release of the engine whose accounting is mirrored.
        stated: Terms of the budget that the user knows, bytes by name.
        engine: Further options of the layout's engine.
    """

    model: ModelSpec
    device: DeviceSpec
    layout: Layout
    gpus: int = 0
    tp: int = 1
    pp: int = 1
    context: int | None = None
    concurrency: int = 1
    lengths: Sequence[int] = ()
    utilization: float = 0.92
    kv_dtype: str = "auto"
    block_size: int | None = None
    tokens: int | None = None
    sequences: int | None = None
    eager: bool = False
    version: tuple[int, int] = (0, 32)
    stated: Mapping[str, int] = field(default_factory=dict)
    engine: Mapping[str, object] = field(default_factory=dict)

    @property
    def replicas(self) -> int:
        """Copies of the model on all accelerators.

        Raises:
            DeviceError: The accelerators are not a multiple of one replica's.
        """
        group = self.tp * self.pp
        gpus = self.gpus or group
        if gpus % group:
            raise DeviceError(f"{gpus} GPUs do not divide into replicas of {group} (tp × pp)")
        return gpus // group

    @property
    def request_tokens(self) -> int:
        """Tokens of the longest request."""
        return self.context or self.model.max_context_tokens or DEFAULT_CONTEXT

    @property
    def conditions(self) -> Conditions:
        """What the budget depends on."""
        tokens, sequences = step_defaults(self.device)
        step = self.tokens or tokens
        return Conditions(
            device=self.device,
            utilization=self.utilization,
            tp=self.tp,
            pp=self.pp,
            tokens=step,
            sequences=min(self.sequences or sequences, step),
            eager=self.eager,
            version=self.version,
        )

    @property
    def layout_options(self) -> LayoutOptions:
        """Options for the layout: the step's tokens and the longest request where it has them."""
        kinds = getattr(self.layout, "option_kinds", {})
        own: dict[str, object] = {
            "max_num_batched_tokens": self.conditions.tokens,
            "max_model_len": self.request_tokens,
        }
        passed = {name: value for name, value in own.items() if name in kinds}
        return LayoutOptions(
            block_size=self.block_size,
            kv_dtype=self.kv_dtype,
            tp=self.tp,
            pp=self.pp,
            engine={**passed, **self.engine},
        )
