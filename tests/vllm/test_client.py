"""The streaming client against servers that behave and servers that do not."""

from __future__ import annotations

import asyncio

import pytest

from kvbench.errors import CellFailed
from kvbench_vllm.client import Load, Prompt, checked, send_all
from kvbench_vllm.endpoint import TOKEN_VARIABLE, Endpoint
from tests.vllm.scripted_server import page, reset, serve_script, stream, token_events


def send(script, count=1, timeout_s=20.0):
    prompts = [Prompt(token_ids=[1, 2, 3], output_tokens=4)] * count
    endpoint = Endpoint(url=script.url, model="m", timeout_s=timeout_s)
    return asyncio.run(send_all(endpoint, prompts, concurrency=2))


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
        (reset, "ServerDisconnectedError"),
        (stream(b'data: {}\n\ndata: {"usage":{}}\n\ndata: [DONE]\n\n'), "KeyError"),
        (stream(b"data: x\n\ndata: not json\n\ndata: [DONE]\n\n"), "JSONDecodeError"),
    ],
)
def test_a_broken_answer_is_an_error_of_its_request(answer, message):
    with serve_script(v1__completions=answer) as script:
        response = send(script).responses[0]
    assert message in response.error


def test_an_endless_body_is_cut_off(monkeypatch):
    monkeypatch.setattr("kvbench_vllm.client._MOST_RESPONSE_BYTES", 10_000)
    with serve_script(v1__completions=stream(*[b"data: x\n\n" * 100] * 100)) as script:
        assert "longer than 10000 bytes" in send(script).responses[0].error


def test_failures_are_counted_by_kind():
    with serve_script(v1__completions=page("boom", 500)) as script:
        load = send(script, count=3)
    with pytest.raises(CellFailed, match="3 requests failed: 3x ValueError: HTTP 500") as failure:
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
