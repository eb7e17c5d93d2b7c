"""An HTTP server in this process that answers what a test scripts, misbehaviour included."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Script:
    """Path -> answer, and what was asked."""

    answers: dict[str, Answer]
    url: str = ""
    seen: list[tuple[str, str]] = field(default_factory=list)


def page(text: str, status: int = 200, kind: str = "text/plain") -> Answer:
    """Answer with a whole page."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        body = text.encode()
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def stream(*chunks: bytes, status: int = 200) -> Answer:
    """Answer with an event stream that ends by closing the connection."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        for chunk in chunks:
            handler.wfile.write(chunk)
            handler.wfile.flush()
        handler.close_connection = True

    return answer


def chunked(body: bytes, *, size: int = 4096, ends: bool = True) -> Answer:
    """Answer in chunks of ``size`` bytes and keep the connection open, or break off."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for start in range(0, len(body), size):
            piece = body[start : start + size]
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            handler.wfile.flush()
        if ends:
            handler.wfile.write(b"0\r\n\r\n")
        handler.close_connection = not ends

    return answer


def raw(text: bytes) -> Answer:
    """Answer with these bytes, HTTP or not."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(text)
        handler.close_connection = True

    return answer


def reset(handler: BaseHTTPRequestHandler) -> None:
    """Close the connection without an answer."""
    handler.close_connection = True
    handler.connection.close()


def token_events(count: int, prompt_tokens: int = 8, cached: int | None = None) -> bytes:
    """A complete stream of ``count`` tokens with its usage and end mark."""
    token = b'data: {"choices":[{"text":"x"}]}\n\n'
    details = "null" if cached is None else f'{{"cached_tokens":{cached}}}'
    usage = (
        f'data: {{"choices":[],"usage":{{"prompt_tokens":{prompt_tokens},'
        f'"completion_tokens":{count},"prompt_tokens_details":{details}}}}}\n\n'
    )
    return token * count + usage.encode() + b"data: [DONE]\n\n"


@contextmanager
def serve_script(**answers: Answer) -> Iterator[Script]:
    """Serve ``answers``; a keyword names a path, with ``__`` for the slash."""
    script = Script(answers={"/" + name.replace("__", "/"): a for name, a in answers.items()})

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(length)
            script.seen.append((self.path, self.headers.get("Authorization") or ""))
            answer = script.answers.get(self.path, page("not found", 404))
            try:
                answer(self)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        do_GET = do_POST = _answer  # noqa: N815 - the names http.server looks for

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
