"""``kvbench gpus``: the devices of the catalog."""

from __future__ import annotations

import click

from kvbench.cli.output import emit, format_option

COLUMNS = (
    "gpu", "memory_bytes", "memory_gib", "board_mib", "bandwidth_gb_per_s", "bf16_tflops",
    "fp8_tflops",
    "max_num_batched_tokens", "max_num_seqs",
)  # fmt: skip


@click.command("gpus")
@format_option
def command(output_format: str) -> None:
    """List the devices of the catalog.

    memory_bytes is what a process is told (cudaMemGetInfo), which engines multiply by their
    utilization; board_mib is what nvidia-smi prints. JSON has the interval over drivers and the
    source of each figure. The last columns are an API server's defaults on that device.
    """
    from kvbench.device.catalog import DEVICES

    emit([_row(device) for device in DEVICES.values()], COLUMNS, output_format)


def _row(device: object) -> dict[str, object]:
    from kvbench.device.conditions import step_defaults
    from kvbench.device.spec import DeviceSpec

    assert isinstance(device, DeviceSpec)
    tokens, sequences = step_defaults(device)
    low, _, high = device.memory_interval
    return {
        "gpu": device.name,
        "memory_bytes": device.memory_bytes,
        "memory_gib": f"{device.memory_bytes / 2**30:.2f}",
        "board_mib": device.board_bytes >> 20 or None,
        "bandwidth_gb_per_s": device.bandwidth_bytes_per_s // 10**9,
        "bf16_tflops": device.flops_per_s / 10**12,
        "fp8_tflops": device.fp8_flops_per_s / 10**12 or None,
        "max_num_batched_tokens": tokens,
        "max_num_seqs": sequences,
        "memory_low_bytes": low,
        "memory_high_bytes": high,
        "bandwidth_bytes_per_s": device.bandwidth_bytes_per_s,
        "flops_per_s": device.flops_per_s,
        "fp8_flops_per_s": device.fp8_flops_per_s or None,
        "source": device.source,
    }
