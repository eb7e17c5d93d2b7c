"""Small requests to a server that may be slow, broken or not a server at all."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from kvbench.errors import CellFailed
from kvbench_vllm.endpoint import TOKEN_VARIABLE, Endpoint

#: A ``/metrics`` page longer than this is refused.
MOST_PAGE_BYTES = 16 * 1024**2
_TIMEOUT_S = 10.0


def get_text(endpoint: Endpoint, path: str, timeout_s: float = _TIMEOUT_S) -> str:
    """Return a page of the server.

    Raises:
        CellFailed: Not reachable, refused, not found, too large or too slow; the reason is a
            stable code.
    """
    request = urllib.request.Request(endpoint.url + path, headers=endpoint.headers())
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            page = response.read(MOST_PAGE_BYTES + 1)
    except urllib.error.HTTPError as error:
        error.close()
        raise _http_failure(endpoint, path, error.code) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise CellFailed(
            "server_unreachable", f"{endpoint.url}{path} does not answer: {reason}"
        ) from error
    if len(page) > MOST_PAGE_BYTES:
        raise CellFailed("page_too_large", f"{endpoint.url}{path} is over {MOST_PAGE_BYTES} bytes")
    return str(page.decode("utf-8", "replace"))


def get_json(endpoint: Endpoint, path: str) -> dict[str, Any]:
    """Return a page that holds a JSON object.

    Raises:
        CellFailed: As ``get_text``, or the page is no JSON object.
    """
    try:
        value = json.loads(get_text(endpoint, path))
    except json.JSONDecodeError as error:
        raise CellFailed("not_json", f"{endpoint.url}{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise CellFailed("not_json", f"{endpoint.url}{path} is not a JSON object")
    return value


def is_healthy(endpoint: Endpoint) -> bool:
    """Whether ``/health`` answers with success."""
    try:
        get_text(endpoint, "/health", timeout_s=2.0)
    except CellFailed:
        return False
    return True


def _http_failure(endpoint: Endpoint, path: str, code: int) -> CellFailed:
    where = f"{endpoint.url}{path}"
    if code in (401, 403):
        return CellFailed(
            "auth_refused", f"{where} refuses (HTTP {code}): set {TOKEN_VARIABLE} to its token"
        )
    if code == 404:
        return CellFailed("endpoint_off", f"{where} does not exist on this server (HTTP 404)")
    return CellFailed("server_error", f"{where} failed with HTTP {code}")
