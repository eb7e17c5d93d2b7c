"""Where decode attention runs: a device, Triton's interpreter, or plain torch on the CPU."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

from kvbench.engine import Evidence
from kvbench.errors import EngineUnavailable
from kvbench_triton import installed
from kvbench_triton.config import CPU, Target, nvidia_family

AUTO, CUDA, ROCM = "auto", "cuda", "rocm"
INTERPRETER, TORCH_CPU = "triton-interpreter", "torch-cpu"
BACKENDS = (AUTO, CUDA, ROCM, INTERPRETER, TORCH_CPU)

_NO_DEVICE = (
    "run on a machine with one, or set backend = 'triton-interpreter' (tiny shapes) or "
    "'torch-cpu' to check the arithmetic"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A resolved backend.

    Attributes:
        name: One of ``BACKENDS`` but ``auto``.
        device: Torch device.
        target: What the kernels are made for.
        uuid: UUID of the device, empty on the CPU.
        product: The device's own name, empty on the CPU.
        memory_bytes: Device memory, 0 on the CPU.
        l2_bytes: Last-level cache of the device, 0 on the CPU.
    """

    name: str
    device: str
    target: Target
    uuid: str = ""
    product: str = ""
    memory_bytes: int = 0
    l2_bytes: int = 0

    @property
    def on_device(self) -> bool:
        """Whether a device runs the kernels, so that time and bandwidth mean something."""
        return self.name in (CUDA, ROCM)

    @property
    def evidence(self) -> Evidence:
        """Kind of evidence of what this backend computes."""
        return Evidence.DEVICE if self.on_device else Evidence.ENGINE


def open_backend(name: str) -> Backend:
    """Return the backend called ``name``; must come before Triton is imported.

    Raises:
        EngineUnavailable: torch, Triton or the device is missing, or too old.
    """
    installed.require()
    if name == TORCH_CPU:
        return Backend(name=TORCH_CPU, device="cpu", target=CPU)
    if name == INTERPRETER:
        return _interpreter()
    return _device(name)


def _interpreter() -> Backend:
    interpreting = os.environ.get("TRITON_INTERPRET") == "1"
    if "triton" in sys.modules and not interpreting:
        raise EngineUnavailable(
            "Triton was loaded for a device in this process and cannot interpret any more",
            'use isolation = "engine", so that each backend has its own process',
        )
    os.environ["TRITON_INTERPRET"] = "1"
    return Backend(name=INTERPRETER, device="cpu", target=CPU)


def _device(name: str) -> Backend:
    import torch

    if not torch.cuda.is_available():
        raise EngineUnavailable("no CUDA or ROCm device", _NO_DEVICE)
    kind = ROCM if torch.version.hip else CUDA
    if name not in (AUTO, kind):
        raise EngineUnavailable(f"backend {name!r}, but torch was built for {kind}", _NO_DEVICE)
    if os.environ.get("TRITON_INTERPRET") == "1":
        raise EngineUnavailable("TRITON_INTERPRET is set", "unset it to use the device")
    properties = torch.cuda.get_device_properties(0)
    return from_properties(kind, properties)


def from_properties(kind: str, properties: Any) -> Backend:
    """Return the backend of a torch device with ``properties``.

    Raises:
        EngineUnavailable: The device is too old for the kernels.
    """
    if kind == ROCM:
        family, native = str(properties.gcnArchName).split(":")[0], False
    else:
        capability = (int(properties.major), int(properties.minor))
        family, native = nvidia_family(*capability), capability >= (8, 9)
    return Backend(
        name=kind,
        device="cuda:0",
        target=Target(
            family=family,
            multiprocessors=int(properties.multi_processor_count),
            native_fp8=native,
        ),
        uuid=_uuid(properties),
        product=str(properties.name),
        memory_bytes=int(properties.total_memory),
        l2_bytes=int(getattr(properties, "L2_cache_size", 0)),
    )


def _uuid(properties: Any) -> str:
    """UUID of the visible device: a MIG instance's own, which torch does not tell, else torch's."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0]
    return visible if visible.startswith("MIG-") else str(getattr(properties, "uuid", ""))
