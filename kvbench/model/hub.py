"""A model's ``config.json`` and checkpoint index from a hub, by repository id.

Needs the extra ``hub`` (httpx). ``HF_ENDPOINT`` names another hub, ``HF_TOKEN`` a token, which is
sent to that hub alone and appears in no message; ``HF_HUB_OFFLINE=1`` keeps off the network.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

from kvbench.errors import ModelError

if TYPE_CHECKING:
    import httpx

DEFAULT_ENDPOINT = "https://huggingface.co"
_INDEX = "model.safetensors.index.json"
MAX_CONFIG_BYTES = 8 << 20
MAX_INDEX_BYTES = 64 << 20
_TIMEOUT_S = 10.0
_MOST_REDIRECTS = 5
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*\Z")
_YES = frozenset({"1", "true", "yes", "on"})


def fetch_config(repository: str) -> tuple[dict[str, Any], str]:
    """Fetch the ``config.json`` of ``repository``.

    Args:
        repository: ``owner/name``.

    Returns:
        The config, and where it came from.

    Raises:
        ModelError: Offline, missing, gated, too large, not JSON, or no answer in time.
    """
    url = _url(repository, "config.json")
    with _client() as client:
        return _json(_get(client, url, repository, MAX_CONFIG_BYTES), url), url


def fetch_weight_bytes(repository: str) -> int | None:
    """Fetch the size of the checkpoint that the repository's index states.

    Returns:
        Bytes of all tensors, ``None`` when the repository has no index (one single file).

    Raises:
        ModelError: As ``fetch_config``; or an index without a sensible total.
    """
    from kvbench.model.checkpoint import index_total_bytes

    url = _url(repository, _INDEX)
    with _client() as client:
        data = _get(client, url, repository, MAX_INDEX_BYTES, optional=True)
    return None if data is None else index_total_bytes(_json(data, url), url)


def _url(repository: str, file: str) -> str:
    if not _REPOSITORY.match(repository) or ".." in repository:
        raise ModelError(f"{repository!r} is not a hub id; write owner/name")
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in _YES:
        raise ModelError(
            f"{repository}: HF_HUB_OFFLINE is set; give the path of a config.json instead"
        )
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or DEFAULT_ENDPOINT
    if not endpoint.startswith(("https://", "http://")):
        raise ModelError("HF_ENDPOINT must start with https:// or http://")
    return f"{endpoint}/{repository}/resolve/main/{file}"


def _client() -> httpx.Client:
    try:
        import httpx
    except ImportError:
        raise ModelError(
            "reading models from a hub needs the package httpx: pip install 'kvbench[hub]'"
        ) from None
    token = os.environ.get("HF_TOKEN", "").strip()
    # httpx drops the header when a redirect leaves for another host.
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        return httpx.Client(
            headers=headers,
            timeout=_TIMEOUT_S,
            follow_redirects=True,
            max_redirects=_MOST_REDIRECTS,
        )
    except (UnicodeError, ValueError):
        raise ModelError("HF_TOKEN holds characters that no token has") from None


def _get(
    client: httpx.Client, url: str, repository: str, limit: int, *, optional: bool = False
) -> bytes | None:
    import httpx

    try:
        with client.stream("GET", url) as answer:
            if optional and answer.status_code == httpx.codes.NOT_FOUND:
                return None
            _check(answer, repository)
            return _body(answer, url, limit)
    except httpx.TimeoutException:
        raise ModelError(f"{url}: no answer within {_TIMEOUT_S:.0f} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise ModelError(f"{url}: {_why(error)}; offline? give a config.json instead") from None


def _why(error: Exception) -> str:
    """The error's kind and text, on one line; headers are never part of it."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _check(answer: httpx.Response, repository: str) -> None:
    status = answer.status_code
    if status in (401, 403):
        has_token = bool(os.environ.get("HF_TOKEN"))
        remedy = "HF_TOKEN has no access; ask for it on the model's page" if has_token else (
            "set HF_TOKEN to a token with access, or check the name"
        )  # fmt: skip
        raise ModelError(f"{repository}: gated, private or no such model ({status}); {remedy}")
    if status == 404:
        raise ModelError(f"{repository}: no such model, or it has no config.json (404)")
    if status == 429:
        raise ModelError(f"{repository}: the hub asks to wait (429); try again later")
    if status != 200:
        raise ModelError(f"{repository}: the hub answered {status}")


def _body(answer: httpx.Response, url: str, limit: int) -> bytes:
    parts, size = [], 0
    for part in answer.iter_bytes():
        size += len(part)
        if size > limit:
            raise ModelError(f"{url}: larger than {limit >> 20} MiB")
        parts.append(part)
    return b"".join(parts)


def _json(data: bytes | None, url: str) -> dict[str, Any]:
    try:
        value = json.loads(data or b"")
    except (ValueError, RecursionError):
        raise ModelError(f"{url}: not JSON") from None
    if not isinstance(value, dict):
        raise ModelError(f"{url}: expected an object, got {type(value).__name__}")
    return value
