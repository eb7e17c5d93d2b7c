"""Cache element types with the scales that travel with them, all in integer bytes.

The type of the cache is independent of the type of the weights: a model quantized to 4 bits
keeps a bf16 cache unless the engine is told otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvbench.errors import ModelError
from kvbench.names import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class KvDtype:
    """One cache element type.

    Attributes:
        name: Name on the command line and in suites.
        bits: Bits per element, scales excluded.
        vector_scale_bytes: Scale (and zero point) bytes per token and head vector.
        group_elements: Elements that share one group scale, 0 when there are no groups.
        group_scale_bytes: Scale (and zero point) bytes per group of elements.
        rope_bits: Bits per element of the rope part of a latent vector, 0 for ``bits``.
        scale: The scale's granularity and origin, one phrase.
    """

    name: str
    bits: int
    vector_scale_bytes: int = 0
    group_elements: int = 0
    group_scale_bytes: int = 0
    rope_bits: int = 0
    scale: str = ""

    def bytes_for(self, elements: int, vectors: int = 1) -> int:
        """Bytes of ``vectors`` vectors (one per token and head) of ``elements`` elements each.

        Args:
            elements: Elements of one vector.
            vectors: How many vectors.

        Returns:
            ``vectors * (ceil(elements * bits / 8) + scales)``.
        """
        return vectors * self._vector_bytes(elements)

    def latent_bytes(self, latent: int, rope: int) -> int:
        """Bytes of one token's latent vector: ``latent`` compressed and ``rope`` rotary elements.

        A type that stores both parts alike treats them as one vector.
        """
        if not self.rope_bits:
            return self._vector_bytes(latent + rope)
        return self._vector_bytes(latent) + _ceil_div(rope * self.rope_bits, 8)

    def _vector_bytes(self, elements: int) -> int:
        size = _ceil_div(elements * self.bits, 8) + self.vector_scale_bytes
        if self.group_elements:
            size += _ceil_div(elements, self.group_elements) * self.group_scale_bytes
        return size


def _ceil_div(value: int, divisor: int) -> int:
    return -(-value // divisor)


_PER_TENSOR = "one scale per layer, not counted per token"
_PER_HEAD = "one fp32 scale per token and head"

_CATALOG = (
    KvDtype(name="fp32", bits=32),
    KvDtype(name="bf16", bits=16),
    KvDtype(name="fp16", bits=16),
    KvDtype(name="fp8_e4m3", bits=8, scale=_PER_TENSOR),
    KvDtype(name="fp8_e5m2", bits=8, scale=_PER_TENSOR),
    KvDtype(name="fp8_per_token_head", bits=8, vector_scale_bytes=4, scale=_PER_HEAD),
    KvDtype(
        name="fp8_ds_mla",
        bits=8,
        group_elements=128,
        group_scale_bytes=4,
        rope_bits=16,
        scale="one fp32 scale per 128 latent elements, rope part in bf16",
    ),
    KvDtype(name="int8", bits=8, vector_scale_bytes=4, scale=_PER_HEAD),
    KvDtype(
        name="int4",
        bits=4,
        group_elements=64,
        group_scale_bytes=4,
        scale="a 2-byte scale and a 2-byte zero point per 64 elements",
    ),
    KvDtype(
        name="nvfp4",
        bits=4,
        group_elements=16,
        group_scale_bytes=1,
        scale="one fp8 scale per 16 elements",
    ),
    KvDtype(
        name="q8_0",
        bits=8,
        group_elements=32,
        group_scale_bytes=2,
        scale="one fp16 scale per 32 elements",
    ),
    KvDtype(
        name="q5_1",
        bits=5,
        group_elements=32,
        group_scale_bytes=4,
        scale="an fp16 scale and minimum per 32 elements",
    ),
    KvDtype(
        name="q5_0",
        bits=5,
        group_elements=32,
        group_scale_bytes=2,
        scale="one fp16 scale per 32 elements",
    ),
    KvDtype(
        name="q4_1",
        bits=4,
        group_elements=32,
        group_scale_bytes=4,
        scale="an fp16 scale and minimum per 32 elements",
    ),
    KvDtype(
        name="q4_0",
        bits=4,
        group_elements=32,
        group_scale_bytes=2,
        scale="one fp16 scale per 32 elements",
    ),
)

#: Cache element types by name.
KV_DTYPES: dict[str, KvDtype] = {dtype.name: dtype for dtype in _CATALOG}

#: Other spellings in use, each with the catalog name it stands for.
ALIASES: dict[str, str] = {
    "float32": "fp32",
    "float": "fp32",
    "f32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "f16": "fp16",
    "fp8": "fp8_e4m3",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
    "int8_per_token_head": "int8",
}

#: What a model's own ``dtype`` may be; ``auto`` stands for it.
MODEL_DTYPES = ("fp32", "bf16", "fp16")


def kv_dtype(name: str, model_dtype: str = "bf16") -> KvDtype:
    """Return the element type called ``name``; ``auto`` is the model's own type.

    Raises:
        ModelError: No such type.
    """
    wanted = model_dtype if name == "auto" else name
    found = KV_DTYPES.get(ALIASES.get(wanted, wanted))
    if found is None:
        known = [*KV_DTYPES, *ALIASES, "auto"]
        raise ModelError(f"no KV cache dtype {wanted!r}{did_you_mean(wanted, known)}")
    return found


def model_dtype(name: str) -> str:
    """Return the catalog name of a model's weight and activation type (``bfloat16`` → ``bf16``).

    Raises:
        ModelError: The type is not a floating-point type that models run in.
    """
    bare = name.removeprefix("torch.")
    found = ALIASES.get(bare, bare)
    if found not in MODEL_DTYPES:
        raise ModelError(f"model dtype {name!r} is not one of {', '.join(MODEL_DTYPES)}")
    return found
