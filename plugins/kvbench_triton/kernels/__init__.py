"""The Triton kernels. Set ``TRITON_INTERPRET`` before the first import of this package, if at all.

Triton fixes how a kernel runs (compiled, or interpreted on the CPU) when the kernel is defined.
"""
