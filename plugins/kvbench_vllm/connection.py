"""HTTP/1.1 connections for token streams: little work per read, all of it known.

A token costs one read of its socket, one time stamp and one call of httptools (llhttp), which
does the parsing: chunked and plain bodies, keep-alive, malformed heads. Reads go into one buffer
that all connections share; allocating a new one for each read costs more than the read itself.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import SplitResult, urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

#: A response longer than this is not a token stream.
MOST_RESPONSE_BYTES = 64 * 1024**2
#: Bytes of an error page that are read before it is cut off.
_MOST_ERROR_BYTES = 2000
_BUFFER_BYTES = 64 * 1024
#: Servers close idle connections after some seconds; a younger one is safe to use again.
_KEPT_S = 1.0


@dataclass(slots=True, kw_only=True)
class Reply:
    """One response.

    Attributes:
        status: HTTP status, 0 before the head is complete.
        pieces: The body as it came.
        times_s: When each piece was read (``time.perf_counter``).
    """

    status: int = 0
    pieces: list[bytes] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self.pieces)


class Connection(asyncio.BufferedProtocol):
    """One connection, one request at a time.

    The methods without a docstring are called by asyncio or by the parser.
    """

    def __init__(self, buffer: bytearray) -> None:
        """Read into ``buffer``, which may serve all connections of one event loop."""
        self._buffer, self._view = buffer, memoryview(buffer)
        self._done: asyncio.Future[Reply] | None = None
        self._keep_alive = False

    async def exchange(self, request: bytes, timeout_s: float) -> Reply:
        """Send ``request`` and return its response.

        Raises:
            ValueError: The response is no HTTP/1.1, too long, or not complete in ``timeout_s``.
        """
        loop = asyncio.get_running_loop()
        self._done = loop.create_future()
        self._reply, self._received_bytes, self._keep_alive = Reply(), 0, False
        self._parser = HttpResponseParser(self)
        late = loop.call_later(timeout_s, self._fail, f"no complete answer in {timeout_s:g} s")
        self.transport.write(request)
        try:
            return await self._done
        finally:
            late.cancel()

    def is_reusable(self) -> bool:
        """Whether the last response ended cleanly and the server keeps the connection open."""
        return self._keep_alive and not self.transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # noqa: D102
        self.transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: D102
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:  # noqa: D102
        self._now_s = time.perf_counter()
        self._received_bytes += nbytes
        try:
            self._parser.feed_data(self._view[:nbytes])
        except (HttpParserError, HttpParserUpgrade) as error:
            self._fail(f"the server does not answer in HTTP/1.1: {error}")
        if self._received_bytes > MOST_RESPONSE_BYTES:
            self._fail(f"response longer than {MOST_RESPONSE_BYTES} bytes")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: D102
        self._keep_alive = False
        if exc is not None:
            self._fail(f"the connection broke: {exc}")
        elif self._done is not None and not self._reply.status:
            self._fail("the server closed the connection without an answer")
        else:
            # Without a stated length the end of the connection is that of the body.
            self._finish()

    def on_headers_complete(self) -> None:  # noqa: D102
        self._reply.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:  # noqa: D102
        self._reply.pieces.append(data)
        self._reply.times_s.append(self._now_s)
        if self._reply.status != 200 and self._received_bytes > _MOST_ERROR_BYTES:
            self._finish()

    def on_message_complete(self) -> None:  # noqa: D102
        # Nothing is expected now: bytes that come nevertheless end the connection.
        self._keep_alive = self._done is not None and self._parser.should_keep_alive()
        self._finish()

    def _finish(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(self._reply)
        self._done = None

    def _fail(self, why: str) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(ValueError(why))
        self._done, self._keep_alive = None, False
        self.transport.abort()


class Connections:
    """Connections to one server, opened when needed and used again while they are fresh."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        """Prepare for requests to ``url`` with ``headers`` in each; nothing is opened yet."""
        self._url: SplitResult = urlsplit(url)
        self._headers = headers
        self._buffer = bytearray(_BUFFER_BYTES)
        self._kept: list[tuple[float, Connection]] = []
        self._ssl = ssl.create_default_context() if self._url.scheme == "https" else None

    def request(self, path: str, body: bytes) -> bytes:
        """The bytes of a POST request with a JSON body.

        Raises:
            ValueError: A header's value holds a line break.
        """
        fields = {
            "Host": self._url.netloc.rpartition("@")[2],
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **self._headers,
        }
        lines = [f"POST {self._url.path}{path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        if any(not line.isprintable() for line in lines):
            raise ValueError("a request header holds a line break or control character")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body

    async def exchange(self, request: bytes, timeout_s: float) -> Reply:
        """Send ``request`` over a free connection, opened within ``timeout_s`` or kept.

        Raises:
            ValueError: No connection, or no usable response in ``timeout_s``; one sentence.
        """
        connection = self._free() or await self._open(timeout_s)
        try:
            reply = await connection.exchange(request, timeout_s)
        except BaseException:
            connection.transport.abort()
            raise
        if connection.is_reusable():
            self._kept.append((time.perf_counter(), connection))
        else:
            connection.transport.abort()
        return reply

    def close(self) -> None:
        """Close what is still open."""
        for _, connection in self._kept:
            connection.transport.abort()
        self._kept.clear()

    def _free(self) -> Connection | None:
        while self._kept:
            since_s, connection = self._kept.pop()
            if connection.is_reusable() and time.perf_counter() - since_s < _KEPT_S:
                return connection
            connection.transport.abort()
        return None

    async def _open(self, timeout_s: float) -> Connection:
        host, port = self._url.hostname or "", self._url.port
        default = 443 if self._ssl else 80
        try:
            async with asyncio.timeout(timeout_s):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(self._buffer), host, port or default, ssl=self._ssl
                )
        except TimeoutError as error:
            raise ValueError(f"no connection to {self._url.netloc} in {timeout_s:g} s") from error
        except OSError as error:
            raise ValueError(f"cannot connect to {self._url.netloc}: {error}") from error
        return connection
