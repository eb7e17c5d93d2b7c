"""The ``vllm`` layout: how vLLM 0.32.0 arranges a model in its block pool. Needs no vLLM.

The defaults are those of the API server on an H100: ``max_num_batched_tokens`` 8192, asynchronous
scheduling, prefix caching where the model supports it.
"""

from kvbench_vllm.layout.layout import VllmLayout

__all__ = ["VllmLayout"]
