"""How vLLM's cache manager splits layers into groups that share block tables.

Mirrors ``get_kv_cache_groups`` and its helpers in ``vllm/v1/core/kv_cache_utils.py`` (0.32.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvbench.errors import ModelError
from kvbench_vllm.layout.spec import CacheSpec, is_uniform_type

#: Every cache with the number of the decoder layer that owns it.
Caches = Sequence[tuple[CacheSpec, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheGroup:
    """Caches that share one block table.

    Attributes:
        caches: Members with the decoder layer that owns each.
        mixed: Members keep their own page sizes (one type, different widths).
    """

    caches: tuple[tuple[CacheSpec, int], ...]
    mixed: bool = False

    @property
    def first(self) -> CacheSpec:
        """The member that stands for the group."""
        return self.caches[0][0]

    def bytes_per_block(self) -> int:
        """Bytes of one block in all members."""
        return sum([spec.page_bytes for spec, _ in self.caches])


def make_groups(caches: Caches, *, block_outermost: bool = False) -> tuple[CacheGroup, ...]:
    """Split ``caches`` (in the engine's layer order) into groups.

    One group for equal caches or for one type with different widths; otherwise pages are made
    equal and layers are dealt out in groups of about the smallest kind's size. Engines whose
    kernels store a block of all layers together (``block_outermost``) pack unequal pages instead.

    Raises:
        ModelError: Pages of different sizes that vLLM cannot make equal.
    """
    distinct = distinct_specs(caches)
    if not distinct:
        return ()
    if len(distinct) == 1:
        return (CacheGroup(caches=tuple(caches)),)
    if is_uniform_type(distinct):
        return (CacheGroup(caches=tuple(caches), mixed=True),)
    if block_outermost and len({spec.page_bytes for spec in distinct}) > 1:
        return _packed(caches)
    return _equal_pages(caches, distinct)


def distinct_specs(caches: Caches) -> list[CacheSpec]:
    """Every different spec once; equal layers share one object, so identity does most of it."""
    objects = {id(spec): spec for spec, _ in caches}
    return list(dict.fromkeys(objects.values()))


def _equal_pages(caches: Caches, distinct: list[CacheSpec]) -> tuple[CacheGroup, ...]:
    widest = max(spec.page_bytes for spec in distinct)
    objects = {id(spec): spec for spec, _ in caches}
    shared: dict[CacheSpec, CacheSpec] = {}
    canonical = {
        key: shared.setdefault(unified, unified)
        for key, unified in [(key, _unified(spec, widest)) for key, spec in objects.items()]
    }
    buckets: dict[int, list[tuple[CacheSpec, int]]] = {}
    for spec, owner in caches:
        equal = canonical[id(spec)]
        buckets.setdefault(id(equal), []).append((equal, owner))
    size = _group_size([len(bucket) for bucket in buckets.values()])
    groups = []
    for bucket in buckets.values():
        count = -(-len(bucket) // size)
        groups += [CacheGroup(caches=tuple(bucket[i::count])) for i in range(count)]
    return tuple(groups)


def _group_size(lengths: list[int]) -> int:
    smallest, largest = min(lengths), max(lengths)
    return largest if largest < smallest * 1.5 else smallest


def _unified(spec: CacheSpec, widest: int) -> CacheSpec:
    page = spec.page_bytes
    if page == widest:
        return spec
    if spec.kind == "state":
        return spec.padded_to(widest)
    if widest % page == 0:
        ratio = widest // page
        grown = spec.with_block(spec.block_size * ratio)
        return grown if spec.padded_bytes is None else grown.padded_to(widest)
    if spec.kind in ("mla", "indexer"):
        raise ModelError(
            f"vLLM cannot make the pages of its layers equal: a {spec.kind} page of {page} bytes "
            f"does not divide {widest}"
        )
    return spec.padded_to(widest)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bucket:
    """Caches of one type; ``balanced`` when every page size occurs equally often."""

    by_page: dict[int, list[tuple[CacheSpec, int]]]
    members: tuple[tuple[CacheSpec, int], ...]

    @property
    def repeats(self) -> int:
        return max(len(layers) for layers in self.by_page.values())

    @property
    def balanced(self) -> bool:
        return len({len(layers) for layers in self.by_page.values()}) == 1


def _packed(caches: Caches) -> tuple[CacheGroup, ...]:
    buckets = _uniform_buckets(caches)
    floor = max([b.repeats for b in buckets if b.balanced and len(b.by_page) > 1], default=0)
    repeats = _least_padding([b.repeats for b in buckets if b.balanced], floor) if floor else 0
    anchor = max(
        [
            _widest(b, len(b.members) if _splits_freely(b, repeats) else _split(b, repeats))
            for b in buckets
        ]
    )
    groups: list[CacheGroup] = []
    for bucket in buckets:
        count = _split(bucket, repeats)
        if _splits_freely(bucket, repeats):
            fit = max(anchor // bucket.members[0][0].page_bytes, 1)
            count = max(count, -(-len(bucket.members) // fit))
        groups += _deal(bucket, count)
    return tuple(groups)


def _uniform_buckets(caches: Caches) -> list[_Bucket]:
    types: list[tuple[list[CacheSpec], list[tuple[CacheSpec, int]]]] = []
    for spec, owner in caches:
        for distinct, members in types:
            if spec in distinct or is_uniform_type([*distinct, spec]):
                members.append((spec, owner))
                if spec not in distinct:
                    distinct.append(spec)
                break
        else:
            types.append(([spec], [(spec, owner)]))
    return [_bucket(members) for _, members in types]


def _bucket(members: list[tuple[CacheSpec, int]]) -> _Bucket:
    by_page: dict[int, list[tuple[CacheSpec, int]]] = {}
    for spec, owner in members:
        by_page.setdefault(spec.page_bytes, []).append((spec, owner))
    return _Bucket(by_page=by_page, members=tuple(members))


def _least_padding(counts: list[int], floor: int) -> int:
    """The group size from ``floor`` up that pads ``counts`` least; the largest among equals."""
    sizes = range(floor, max([*counts, floor]) + 1)
    return min(sizes, key=lambda size: (sum(-count % size for count in counts), -size))


def _split(bucket: _Bucket, repeats: int) -> int:
    return -(-bucket.repeats // repeats) if bucket.balanced and repeats else 1


def _splits_freely(bucket: _Bucket, repeats: int) -> bool:
    kind = bucket.members[0][0].kind
    return kind == "state" or (repeats == 0 and kind in ("sliding", "sliding_mla"))


def _widest(bucket: _Bucket, groups: int) -> int:
    return sum(-(-len(layers) // groups) * page for page, layers in bucket.by_page.items())


def _deal(bucket: _Bucket, count: int) -> list[CacheGroup]:
    if count == 1:
        return [CacheGroup(caches=bucket.members, mixed=True)]
    pattern = list(zip(*bucket.by_page.values(), strict=False))
    return [
        CacheGroup(caches=tuple([m for repeat in pattern[i::count] for m in repeat]), mixed=True)
        for i in range(count)
    ]
