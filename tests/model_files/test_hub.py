"""A local HTTP server stands in for the hub."""

from __future__ import annotations

import builtins
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from kvbench.errors import ModelError
from kvbench.model import hub
from kvbench.model.load import load_model

from .test_weights import tiny

SECRET = "hf_not-to-be-seen"


class Hub(BaseHTTPRequestHandler):
    """Answers by path; remembers what it was asked."""

    protocol_version = "HTTP/1.0"
    seen: ClassVar[list[tuple[str, str | None]]] = []
    other: ClassVar[str] = ""

    def do_GET(self) -> None:
        Hub.seen.append((self.path, self.headers.get("Authorization")))
        owner = self.path.split("/")[1]
        getattr(self, f"answer_{owner}", self.answer_missing)()

    def answer_good(self) -> None:
        if self.path.endswith("index.json"):
            return self.send(200, {"metadata": {"total_size": 4096}, "weight_map": {}})
        return self.send(200, tiny())

    def answer_single(self) -> None:
        self.send(404 if self.path.endswith("index.json") else 200, tiny())

    def answer_gated(self) -> None:
        self.send(403, {"error": "gated"})

    def answer_missing(self) -> None:
        self.send(404, {})

    def answer_busy(self) -> None:
        self.send(429, {})

    def answer_broken(self) -> None:
        self.send(500, {})

    def answer_text(self) -> None:
        self.send_bytes(200, b"<html>not json</html>")

    def answer_list(self) -> None:
        self.send_bytes(200, b"[1]")

    def answer_huge(self) -> None:
        self.send_bytes(200, b" " * (hub.MAX_CONFIG_BYTES + 2))

    def answer_slow(self) -> None:
        time.sleep(1.5)

    def answer_loop(self) -> None:
        self.redirect(self.path)

    def answer_moved(self) -> None:
        self.redirect(f"{Hub.other}/good/model/resolve/main/config.json")

    def redirect(self, target: str) -> None:
        self.send_response(302)
        self.send_header("Location", target)
        self.end_headers()

    def send(self, status: int, value: object) -> None:
        self.send_bytes(status, json.dumps(value).encode())

    def send_bytes(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            return

    def log_message(self, *_: Any) -> None:
        return


def serve() -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


@pytest.fixture(autouse=True)
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server, other = serve(), serve()
    Hub.seen.clear()
    # Another host name, so that a redirect leaves the hub.
    Hub.other = f"http://localhost:{other.server_port}"
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("HF_ENDPOINT", address)
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    yield address
    for each in (server, other):
        each.shutdown()
        each.server_close()


def test_a_model_by_its_id(endpoint: str) -> None:
    config, source = hub.fetch_config("good/model")
    assert config == tiny()
    assert source == f"{endpoint}/good/model/resolve/main/config.json"
    assert hub.fetch_weight_bytes("good/model") == 4096
    assert len(load_model("good/model").layers) == 2


def test_a_repository_of_one_file_has_no_index() -> None:
    assert hub.fetch_weight_bytes("single/model") is None


def test_the_token_goes_to_the_hub_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    hub.fetch_config("moved/model")
    assert [token for _, token in Hub.seen] == [f"Bearer {SECRET}", None]


@pytest.mark.parametrize(
    ("repository", "message"),
    [
        ("gated/model", "set HF_TOKEN"),
        ("nobody/model", "no such model, or it has no config.json"),
        ("busy/model", "asks to wait"),
        ("broken/model", "answered 500"),
        ("text/model", "not JSON"),
        ("list/model", "expected an object"),
        ("huge/model", "larger than 8 MiB"),
        ("loop/model", "TooManyRedirects"),
        ("no-slash", "not a hub id"),
        ("a/b/c", "not a hub id"),
        ("../../etc", "not a hub id"),
        ("a/..", "not a hub id"),
    ],
)
def test_what_goes_wrong_is_one_clear_line(repository: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        hub.fetch_config(repository)
    assert "\n" not in str(caught.value)


def test_no_message_holds_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    for owner in ("gated", "nobody", "busy", "broken", "text", "huge", "loop"):
        with pytest.raises(ModelError) as caught:
            hub.fetch_config(f"{owner}/model")
        assert SECRET not in str(caught.value)
        assert SECRET not in repr(caught.value.__context__)


def test_a_gated_model_with_a_token_says_what_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    with pytest.raises(ModelError, match="HF_TOKEN has no access"):
        hub.fetch_config("gated/model")


def test_a_token_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_tökén")
    with pytest.raises(ModelError) as caught:
        hub.fetch_config("gated/model")
    assert "tök" not in str(caught.value)


def test_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_TIMEOUT_S", 0.2)
    with pytest.raises(ModelError, match="no answer within"):
        hub.fetch_config("slow/model")


def test_offline_by_wish_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE is set"):
        hub.fetch_config("good/model")
    assert Hub.seen == []


def test_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    server.server_close()
    with pytest.raises(ModelError, match=r"offline\? give a config.json instead"):
        hub.fetch_config("good/model")


def test_an_endpoint_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "ftp://somewhere")
    with pytest.raises(ModelError, match="HF_ENDPOINT must start with"):
        hub.fetch_config("good/model")


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "httpx":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ModelError, match=r"kvbench\[hub\]"):
        hub.fetch_config("good/model")


def test_weights_without_a_formula_come_from_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    strange = {**tiny(), "quantization_config": {"quant_method": "homemade"}}
    monkeypatch.setattr(Hub, "answer_odd", lambda self: self.send(200, (
        strange if self.path.endswith("config.json") else {"metadata": {"total_size": 4096}}
    )), raising=False)  # fmt: skip
    model = load_model("odd/model")
    assert (model.weight_bytes, "index" in model.weight_source) == (4096, True)
