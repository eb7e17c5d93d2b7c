"""The streaming client against servers that behave and servers that do not."""

from __future__ import annotations

import signal
import socket
import sys
import threading

import pytest

from kvbench.errors import CellFailed
from kvbench_vllm.client import Load, Prompt, _response, checked, send_load
from kvbench_vllm.connection import Connections, Reply
from kvbench_vllm.endpoint import TOKEN_VARIABLE, Endpoint
from tests.vllm.scripted_server import (
    chunked,
    page,
    raw,
    reset,
    serve_script,
    stream,
    token_events,
)


def send(script, count=1, timeout_s=20.0):
    prompts = [Prompt(token_ids=[1, 2, 3], output_tokens=4)] * count
    endpoint = Endpoint(url=script.url, model="m", timeout_s=timeout_s)
    return send_load(endpoint, prompts, concurrency=2)


@pytest.fixture(autouse=True, params=["uvloop", "asyncio"])
def _on_either_event_loop(request, monkeypatch):
    if request.param == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)


def test_counts_are_the_servers_own():
    with serve_script(v1__completions=stream(token_events(4, prompt_tokens=3, cached=2))) as script:
        load = send(script, count=3)
    assert [response.error for response in load.responses] == ["", "", ""]
    response = load.responses[0]
    assert (response.prompt_tokens, response.output_tokens) == (3, 4)
    assert response.cached_tokens == 2
    assert len(response.gaps_s) == 3
    assert 0 <= response.ttft_s <= response.latency_s


def test_unknown_cached_tokens_stay_unknown():
    with serve_script(v1__completions=stream(token_events(2))) as script:
        assert send(script).responses[0].cached_tokens is None


def test_events_split_anywhere_are_put_together():
    events = token_events(3)
    pieces = [events[index : index + 7] for index in range(0, len(events), 7)]
    with serve_script(v1__completions=stream(*pieces)) as script:
        response = send(script).responses[0]
    assert (response.error, response.output_tokens, len(response.gaps_s)) == ("", 3, 2)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (stream(token_events(4)[:-20]), "before its end mark"),
        (stream(b""), "before its end mark"),
        (stream(b"data: [DONE]\n\n"), "before its end mark"),
        (page("boom", 500), "HTTP 500: boom"),
        (page('{"error":"no"}', 401), "HTTP 401"),
        (page("hello"), "before its end mark"),
        (reset, "closed the connection without an answer"),
        (page("boom " * 1000, 500), "HTTP 500: boom boom"),
        (chunked(token_events(4), ends=False), ""),
        (chunked(token_events(4)[:-20], ends=False), "before its end mark"),
        (raw(b"220 mail.example ESMTP\r\n"), "does not answer in HTTP/1.1"),
        (raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "HTTP/1.1"),
        (stream(b'data: {}\n\ndata: {"usage":{}}\n\ndata: [DONE]\n\n'), "KeyError"),
        (stream(b'data: {}\n\ndata: {"usage":null}\n\ndata: [DONE]\n\n'), "no token counts"),
        (stream(b"data: x\n\ndata: not json\n\ndata: [DONE]\n\n"), "no token counts"),
    ],
)
def test_a_broken_answer_is_an_error_of_its_request(answer, message):
    with serve_script(v1__completions=answer) as script:
        response = send(script).responses[0]
    assert message in response.error
    assert bool(message) == bool(response.error)
    assert "\n" not in response.error


def test_nobody_listening_is_an_error_of_the_request():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    endpoint = Endpoint(url=f"http://127.0.0.1:{port}", model="m")
    load = send_load(endpoint, [Prompt(token_ids=[1], output_tokens=1)], 1)
    assert f"cannot connect to 127.0.0.1:{port}" in load.responses[0].error


def test_a_server_that_never_answers_runs_into_the_time_limit():
    never = threading.Event()
    with serve_script(v1__completions=lambda _: never.wait(30) and None) as script:
        error = send(script, timeout_s=0.2).responses[0].error
        never.set()
    assert error == "no complete answer in 0.2 s"


def test_connections_are_kept_between_requests_and_dropped_after_errors(monkeypatch):
    monkeypatch.setattr("kvbench_vllm.connection._KEPT_S", 3600.0)
    opened: set[object] = set()

    def noting(answer):
        def noted(handler):
            opened.add(handler.client_address)
            answer(handler)

        return noted

    with serve_script(v1__completions=noting(chunked(token_events(2)))) as script:
        assert [response.error for response in send(script, count=6).responses] == [""] * 6
    assert len(opened) == 2
    opened.clear()
    with serve_script(v1__completions=noting(reset)) as script:
        assert all(response.error for response in send(script, count=6).responses)
    assert len(opened) == 6


def test_chunks_split_anywhere_are_put_together():
    events = token_events(3, prompt_tokens=5)
    for size in (1, 2, 7, 64):
        with serve_script(v1__completions=chunked(events, size=size)) as script:
            response = send(script).responses[0]
        assert (response.error, response.prompt_tokens, len(response.gaps_s)) == ("", 5, 2)


@pytest.mark.parametrize("line_break", [b"\n", b"\r\n"])
def test_an_event_has_the_time_of_the_read_that_ended_it(line_break):
    body = token_events(3).replace(b"\n", line_break)
    first = body.index(line_break * 2) + len(line_break * 2)
    pieces = [body[:3], body[3:first], body[first : first + 5], body[first + 5 :]]
    reply = Reply(status=200, pieces=pieces, times_s=[1.0, 2.0, 3.0, 5.0])
    response = _response(reply, began=0.5, start=0.25)
    assert (response.started_s, response.ttft_s, response.latency_s) == (0.25, 1.5, 4.5)
    assert response.gaps_s == (3.0, 0.0)


def test_a_prefix_and_credentials_of_the_url_are_kept_apart():
    request = Connections("http://user@example.org:81/base", {"X": "y"}).request("/v1", b"{}")
    assert request.startswith(b"POST /base/v1 HTTP/1.1\r\nHost: example.org:81\r\n")
    assert request.endswith(b"Content-Length: 2\r\nX: y\r\n\r\n{}")
    with pytest.raises(ValueError, match="line break"):
        Connections("http://example.org", {"X": "y\r\nZ: w"}).request("/v1", b"")


def test_an_endless_body_is_cut_off(monkeypatch):
    monkeypatch.setattr("kvbench_vllm.connection.MOST_RESPONSE_BYTES", 10_000)
    with serve_script(v1__completions=stream(*[b"data: x\n\n" * 100] * 100)) as script:
        assert "longer than 10000 bytes" in send(script).responses[0].error


def test_failures_are_counted_by_kind():
    with serve_script(v1__completions=page("boom", 500)) as script:
        load = send(script, count=3)
    with pytest.raises(CellFailed, match="3 requests failed: 3x HTTP 500: boom") as failure:
        checked(load)
    assert failure.value.reason == "requests_failed"


def test_the_token_comes_from_the_environment_only(monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, "s3cret")
    with serve_script(v1__completions=stream(token_events(2))) as script:
        send(script)
        assert script.seen[0] == ("/v1/completions", "Bearer s3cret")
    assert "s3cret" not in repr(Endpoint(url="http://x"))


def test_a_client_that_uses_its_whole_core_says_so():
    assert Load(responses=(), wall_s=1.0, client_cpu_s=0.9).client_bound
    assert not Load(responses=(), wall_s=1.0, client_cpu_s=0.5).client_bound


def test_a_worker_that_is_told_to_end_stops_waiting():
    """SIGTERM raises in the worker's main thread, which waits for a hanging server."""

    class Told(BaseException):
        pass

    def told(number, frame):
        raise Told

    waiting = threading.Event()

    def never(_):
        waiting.set()
        ended.wait(60)

    def end_when_it_waits():
        waiting.wait(60)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)

    ended, before = threading.Event(), signal.signal(signal.SIGTERM, told)
    ending = threading.Thread(target=end_when_it_waits)
    try:
        with serve_script(v1__completions=never) as script:
            ending.start()
            with pytest.raises(Told):
                send(script, timeout_s=60)
            ended.set()
    finally:
        signal.signal(signal.SIGTERM, before)
        ending.join()
