"""``kvbench models``: the catalog of published configs."""

from __future__ import annotations

import click

from kvbench.cli.output import emit, format_option

COLUMNS = (
    "model", "family", "layers", "kinds", "slope_bytes_per_token", "fixed_bytes",
    "max_context_tokens", "dtype",
)  # fmt: skip


@click.command("models")
@format_option
def command(output_format: str) -> None:
    """List the models of the catalog: family, kinds of layers, bytes per token at long context.

    The slope counts layers that hold every token; fixed bytes are full windows and state of one
    request. Both are for one rank in the model's own dtype.
    """
    from kvbench.model.catalog import catalog_names

    emit([_row(name) for name in catalog_names()], COLUMNS, output_format)


def _row(name: str) -> dict[str, object]:
    from kvbench.model.catalog import catalog_config
    from kvbench.model.load import load_model
    from kvbench.model.sizing import layer_runs, logical_size

    model = load_model(name, weights=False)
    longest = 1 << 24
    size = logical_size(model, longest)
    kinds: dict[str, int] = {}
    for layer, count in layer_runs(model.layers):
        kinds[layer.kind] = kinds.get(layer.kind, 0) + count
    return {
        "model": name,
        "family": model.model_type,
        "layers": len(model.layers),
        "kinds": " + ".join(f"{count} {kind}" for kind, count in kinds.items()),
        "slope_bytes_per_token": float(size.slope_bytes_per_token),
        "fixed_bytes": int(size.intercept_bytes),
        "max_context_tokens": model.max_context_tokens,
        "dtype": model.dtype,
        "config_source": catalog_config(name).get("_source", ""),
    }
