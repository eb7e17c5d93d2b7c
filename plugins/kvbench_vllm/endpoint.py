"""Where a server is, and how one authenticates to it."""

from __future__ import annotations

import os
from dataclasses import dataclass

#: Environment variable whose value goes into the ``Authorization`` header; never stored.
TOKEN_VARIABLE = "KVBENCH_API_TOKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An OpenAI-compatible server.

    Attributes:
        url: Base URL without a path (``http://127.0.0.1:8000``).
        model: Served model name.
        timeout_s: Limit of one request.
    """

    url: str
    model: str = ""
    timeout_s: float = 600.0

    def headers(self) -> dict[str, str]:
        """Headers of every request; the token is read from the environment each time."""
        token = os.environ.get(TOKEN_VARIABLE, "")
        return {"Authorization": f"Bearer {token}"} if token else {}
