"""kvbench: predict, simulate, ask and measure the LLM KV cache, side by side."""

import pluggy

__version__ = "0.1.0"

#: Marks a function of a plugin as the implementation of a hook of ``kvbench.hookspecs``.
hookimpl = pluggy.HookimplMarker("kvbench")

__all__ = ["__version__", "hookimpl"]
