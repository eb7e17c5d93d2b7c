"""These tests interpret kernels: Triton must know before it is imported. Compiling is done in
processes of its own, from which the variable is taken away."""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"
