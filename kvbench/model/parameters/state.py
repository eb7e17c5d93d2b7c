"""Parameters of state-space layers."""

from __future__ import annotations

from collections import Counter

from kvbench.model.parameters.values import Values


def mamba2(values: Values) -> Counter[str]:
    """Mamba-2 mixer of one layer: input and output projection, convolution, scalars."""
    hidden = values.hidden
    heads = values.number("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads")
    dim = values.number("mamba_d_head", "mamba_head_dim", "mamba_headdim", "head_dim", default=64)
    width = _width(values, heads, dim)
    groups = values.number("mamba_n_groups", "mamba_ngroups", "n_groups", default=1)
    size = values.number("mamba_d_state", "ssm_state_size", "state_size")
    kernel = values.number("mamba_d_conv", "conv_kernel", "conv_dimension", default=4)
    through = width + 2 * groups * size
    conv = through * kernel
    conv += through if values.flag("mamba_conv_bias", "use_conv_bias", default=True) else 0
    normed = width if _has_norm(values) else 0
    return Counter(
        linear=hidden * (width + through + heads) + width * hidden,
        small=conv + 3 * heads + normed + _biases(values, width + through + heads),
    )


def _width(values: Values, heads: int, dim: int) -> int:
    stated: int = values.number("mamba_d_ssm", default=0)
    return stated or heads * dim


def _has_norm(values: Values) -> bool:
    return values.family != "falcon_h1" or values.flag("mamba_rms_norm")


def _biases(values: Values, projected: int) -> int:
    if not values.flag("mamba_proj_bias", "use_bias", "add_bias_linear"):
        return 0
    return projected + values.hidden


def mamba1(values: Values) -> Counter[str]:
    """Mamba mixer of one layer: projections, convolution, time-step rank, state matrix."""
    hidden = values.hidden
    expand = values.number("expand", "mamba_expand", default=2)
    width = values.number("intermediate_size", default=0) if _is_pure(values) else 0
    width = width or expand * hidden
    size = values.number("state_size", "mamba_d_state", default=16)
    kernel = values.number("conv_kernel", "mamba_d_conv", default=4)
    rank = values.get("time_step_rank", "mamba_dt_rank", default="auto")
    step = -(-hidden // 16) if rank == "auto" else values.number("time_step_rank", "mamba_dt_rank")
    conv_bias = width if values.flag("use_conv_bias", "mamba_conv_bias", default=True) else 0
    normed = step + 2 * size if values.family == "jamba" else 0
    projections = hidden * 2 * width + width * hidden
    selection = width * (step + 2 * size) + step * width
    small = width * kernel + conv_bias + width + width * size + width + normed
    if values.flag("use_bias", "mamba_proj_bias"):
        small += 2 * width + hidden
    return Counter(linear=projections + selection, small=small)


def _is_pure(values: Values) -> bool:
    return values.family in {"mamba", "falcon_mamba"}
