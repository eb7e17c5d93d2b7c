"""Malformed traces: each one clear line with the file, the line and what was expected."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvbench.errors import TraceError
from kvbench.workload.traces import FORMATS, detect_format, open_trace

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,374,44\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,G,1,2,3,API log\n"
MOONCAKE = {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}
BAILIAN = {
    "chat_id": 1,
    "timestamp": 0.5,
    "input_length": 33,
    "output_length": 2,
    "hash_ids": [1, 2, 3],
}
SHAREGPT = {
    "input_toks": 2,
    "output_toks": 1,
    "arrival_time_ns": 5,
    "input_tok_ids": [1, 2],
    "output_tok_ids": [3],
}
OWN = {"prompt_tokens": 4, "output_tokens": 1}
ROWS: list[dict[str, object]] = [MOONCAKE, BAILIAN, SHAREGPT, OWN]


def jsonl(row: dict[str, object], **changes: object) -> str:
    """Return a good row and, on line 2, the row with changes (``...`` takes a key out)."""
    changed = {key: one for key, one in {**row, **changes}.items() if one is not ...}
    return json.dumps(row) + "\n" + json.dumps(changed) + "\n"


def item(offset_tokens: int, tokens: int) -> dict[str, object]:
    return {"identifier": "cat", "offset_tokens": offset_tokens, "tokens": tokens}


#: text, format, line of the mistake, what the message says
CASES: list[tuple[str, str, int, str]] = [
    (AZURE + "2023-11-16 18:15:46,374\n", "azure", 3, "2 fields; expected 3"),
    (AZURE + "2023-11-16 18:15:46,374,44,9\n", "azure", 3, "4 fields; expected 3"),
    (AZURE + "yesterday,374,44\n", "azure", 3, "TIMESTAMP is 'yesterday'; expected a time"),
    (AZURE + "2023-11-16 18:15:46+00:00,1,1\n", "azure", 3, "expected a time such as"),
    (AZURE + "2023-11-16 18:15:46,many,44\n", "azure", 3, "ContextTokens is 'many'"),
    (AZURE + "2023-11-16 18:15:46,3.5,44\n", "azure", 3, "ContextTokens is '3.5'"),
    (AZURE + "2023-11-16 18:15:46,0,44\n", "azure", 3, "ContextTokens is 0; expected at least 1"),
    (AZURE + "2023-11-16 18:15:46,-4,44\n", "azure", 3, "ContextTokens is -4"),
    (AZURE + "2023-11-16 18:15:46,374,-1\n", "azure", 3, "GeneratedTokens is -1"),
    (AZURE + "2023-11-16 18:15:46,374,\n", "azure", 3, "GeneratedTokens is ''"),
    (AZURE + f"2023-11-16 18:15:46,{10**30},1\n", "azure", 3, "too large; expected at most"),
    (AZURE + f"2023-11-16 18:15:46,{'9' * 5000},1\n", "azure", 3, "expected an integer"),
    (AZURE + "\n" + AZURE.splitlines()[1], "azure", 3, "blank line"),
    ("TIMESTAMP,ContextToken,GeneratedTokens\n1,2,3\n", "azure", 1, "did you mean 'ContextToken'"),
    ("", "azure", 1, "no column 'TIMESTAMP'"),
    (BURST + "6,G,0,2,2,API log\n", "burstgpt", 3, "Request tokens is 0"),
    (BURST + "soon,G,1,2,3,API log\n", "burstgpt", 3, "Timestamp is 'soon'; expected seconds"),
    (BURST + "nan,G,1,2,3,API log\n", "burstgpt", 3, "Timestamp is 'nan'"),
    (BURST + "-1,G,1,2,3,API log\n", "burstgpt", 3, "Timestamp is '-1'"),
    (BURST + "6,G,1,2,3\n", "burstgpt", 3, "5 fields; expected 6"),
    (jsonl(MOONCAKE) + '{"timestamp": 0, "inp', "mooncake", 3, "not JSON"),
    (jsonl(MOONCAKE) + "[1, 2]\n", "mooncake", 3, "is not a JSON object"),
    (jsonl(MOONCAKE, hash_ids=[0]), "mooncake", 2, "hash_ids has 1 ids; expected 2"),
    (jsonl(MOONCAKE, hash_ids=[0, 1, 2]), "mooncake", 2, "hash_ids has 3 ids; expected 2"),
    (jsonl(MOONCAKE, hash_ids=[0, 1.5]), "mooncake", 2, "not a 64-bit integer"),
    (jsonl(MOONCAKE, hash_ids=[0, "1"]), "mooncake", 2, "not a 64-bit integer"),
    (jsonl(MOONCAKE, hash_ids=[0, 1 << 70]), "mooncake", 2, "not a 64-bit integer"),
    (jsonl(MOONCAKE, hash_ids="0 1"), "mooncake", 2, "expected a list of integers"),
    (jsonl(MOONCAKE, input_length=True), "mooncake", 2, "input_length is True"),
    (jsonl(MOONCAKE, input_length=600.0), "mooncake", 2, "input_length is 600.0"),
    (jsonl(MOONCAKE, input_length=...), "mooncake", 2, "key 'input_length' is missing"),
    (jsonl(MOONCAKE, output_length=None), "mooncake", 2, "output_length is None"),
    (jsonl(MOONCAKE, timestamp=-5), "mooncake", 2, "timestamp is -5"),
    (jsonl(MOONCAKE, timestamp="0"), "mooncake", 2, "timestamp is '0'; expected a number"),
    (jsonl(MOONCAKE, timestamp=float("nan")), "mooncake", 2, "timestamp is nan"),
    (jsonl(MOONCAKE, timestamp=float("inf")), "mooncake", 2, "timestamp is inf"),
    (jsonl(MOONCAKE, timestamp=10**400), "mooncake", 2, "timestamp is"),
    (jsonl(MOONCAKE) + "[" * 100_000 + "\n", "mooncake", 3, "not"),
    (jsonl(BAILIAN, hash_ids=[1]), "bailian", 2, "hash_ids has 1 ids; expected 3"),
    (jsonl(BAILIAN, hash_ids=...), "bailian", 2, "key 'hash_ids' is missing"),
    (jsonl(SHAREGPT, input_tok_ids=[1]), "sharegpt", 2, "input_tok_ids has 1 ids; expected 2"),
    (jsonl(SHAREGPT, output_tok_ids=[1, 2]), "sharegpt", 2, "output_tok_ids has 2 ids"),
    (jsonl(SHAREGPT, arrival_time_ns=...), "sharegpt", 2, "key 'arrival_time_ns' is missing"),
    (jsonl(OWN, promt_tokens=3), "kvbench", 2, "unknown key 'promt_tokens'; did you mean"),
    (jsonl(OWN, parent=1), "kvbench", 2, "parent is 1; expected an earlier row"),
    (jsonl(OWN, parent=-1), "kvbench", 2, "parent is -1"),
    (jsonl(OWN, hash_ids=[1]), "kvbench", 2, "key 'hash_tokens' is missing"),
    (
        jsonl(OWN, hash_ids=[1], hash_tokens=4, prompt_ids=[1, 2, 3, 4]),
        "kvbench",
        2,
        "both hash_ids and prompt_ids",
    ),
    (jsonl(OWN, salt=5), "kvbench", 2, "salt is 5; expected a string"),
    (jsonl(OWN, multimodal="cat"), "kvbench", 2, "multimodal is 'cat'; expected a list"),
    (jsonl(OWN, multimodal=["cat"]), "kvbench", 2, "multimodal[0] is 'cat'; expected an object"),
    (jsonl(OWN, multimodal=[{"identifier": "a"}]), "kvbench", 2, "key 'offset_tokens' is missing"),
    (jsonl(OWN, multimodal=[item(0, 0)]), "kvbench", 2, "multimodal[0].tokens is 0"),
    (jsonl(OWN, multimodal=[item(-1, 1)]), "kvbench", 2, "multimodal[0].offset_tokens is -1"),
    (jsonl(OWN, multimodal=[item(3, 2)]), "kvbench", 2, "multimodal[0] fills the tokens 3 to 5"),
    (jsonl(OWN, multimodal=[item(1, 2), item(2, 1)]), "kvbench", 2, "multimodal[1] fills"),
    (jsonl(OWN, multimodal=[{**item(0, 1), "size": 1}]), "kvbench", 2, "unknown key 'size'"),
]


@pytest.mark.parametrize(("text", "name", "line", "message"), CASES)
def test_a_bad_line_is_named(tmp_path: Path, text: str, name: str, line: int, message: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text)
    with pytest.raises(TraceError) as caught:
        list(open_trace(path, format=name))
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "name", "line", "message"), [case for case in CASES if case[2] > 1]
)
def test_a_bad_line_can_be_counted_instead(
    tmp_path: Path, text: str, name: str, line: int, message: str
) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text)
    trace = open_trace(path, format=name, on_bad_line="count")
    requests = list(trace)
    assert trace.counts.rejected == 1
    assert trace.counts.requests == len(requests) >= 1
    assert trace.counts.messages[0].startswith(f"{path}:{line}: ")
    assert message in trace.counts.messages[0]
    assert trace.remarks() == (
        f"1 bad line of bad.txt left out, first {trace.counts.messages[0]}.",
    )


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    name=st.sampled_from(FORMATS),
    start=st.sampled_from([AZURE, BURST, *(json.dumps(one) for one in ROWS), "PAR1", ""]),
    noise=st.binary(max_size=60) | st.text(max_size=60).map(str.encode),
)
def test_no_file_is_anything_but_read_or_refused(
    tmp_path: Path, name: str, start: str, noise: bytes
) -> None:
    path = tmp_path / "noise"
    path.write_bytes(start.encode() + b"\n" + noise)
    for format_name in (name, None):
        try:
            trace = open_trace(path, format=format_name, on_bad_line="count")
            requests = list(trace)
        except TraceError:
            continue
        assert all(one.prompt_tokens >= 1 and one.output_tokens >= 1 for one in requests)
        assert trace.counts.requests == len(requests)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(AZURE.encode() + b"2023-11-16 18:15:46,\xff,1\n")
    with pytest.raises(TraceError, match=r"bad\.csv:3: not UTF-8 text"):
        list(open_trace(path))


def test_a_parent_is_void_after_a_rejected_line(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(
        '{"prompt_tokens": 1, "output_tokens": 1}\nbad\n' + json.dumps(OWN | {"parent": 0})
    )
    trace = open_trace(path, on_bad_line="count")
    assert len(list(trace)) == 1
    assert trace.counts.rejected == 2
    assert "void after a rejected line" in trace.counts.messages[1]


def test_only_the_first_messages_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(AZURE + "bad\n" * 50)
    trace = open_trace(path, on_bad_line="count")
    assert len(list(trace)) == 1
    assert trace.counts.rejected == 50
    assert len(trace.counts.messages) == 5


@pytest.mark.parametrize("text", ["", "\n\n", "hello\n", "{}\n", '{"a": 1}', "a,b,c\n1,2,3\n"])
def test_unknown_formats_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "what"
    path.write_text(text)
    with pytest.raises(TraceError, match="not a trace kvbench knows; expected one of azure"):
        detect_format(path)


@pytest.mark.parametrize("text", [AZURE.splitlines()[0], AZURE.splitlines()[0] + "\n\n"])
def test_a_trace_without_requests_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "empty.csv"
    path.write_text(text)
    with pytest.raises(TraceError, match="holds no request"):
        list(open_trace(path))


def test_a_trace_of_bad_lines_only_says_so(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(AZURE.splitlines()[0] + "\nbad\n")
    with pytest.raises(TraceError, match=r"holds no request .*1 bad line .*bad.csv:2: 1 fields"):
        list(open_trace(path, on_bad_line="count"))


@pytest.mark.parametrize(
    ("content", "why"), [(b"", "no text"), (b"\xff\xfe{", "not UTF-8 text")], ids=["empty", "bytes"]
)
def test_why_a_format_is_unknown(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "what"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=f"what:1: {why}.*; not a trace kvbench knows"):
        detect_format(path)


def test_a_cut_off_row_of_json_is_named_in_plain_words(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_text('{"prompt_tokens": 5, "output_tokens": 5}\n{"prompt_tok')
    with pytest.raises(TraceError, match=r"cut.jsonl:2: not JSON: .*starting at column 2"):
        list(open_trace(path))


def test_damaged_compression_is_refused(tmp_path: Path) -> None:
    lines = (AZURE + "2023-11-16 18:15:46,374,44\n" * 5000).encode()
    for name, data in (("cut.gz", gzip.compress(lines)), ("cut.zst", zstandard.compress(lines))):
        path = tmp_path / name
        path.write_bytes(data[: len(data) // 2])
        with pytest.raises(TraceError, match=rf"{name}: the compressed data are damaged"):
            list(open_trace(path, format="azure"))


def test_gzip_with_a_wrong_checksum_is_refused(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(AZURE.encode()))
    data[-6] ^= 0xFF
    path = tmp_path / "bad.gz"
    path.write_bytes(bytes(data))
    with pytest.raises(TraceError, match="the compressed data are damaged"):
        list(open_trace(path, format="azure"))


def _parquet(folder: Path, rows: dict[str, list[object]]) -> Path:
    path = folder / "own.parquet"
    pq.write_table(pa.table(rows), path)
    return path


def test_parquet_columns_are_checked(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="unknown column 'promt_tokens'; did you mean"):
        list(open_trace(_parquet(tmp_path, {"promt_tokens": [1], "output_tokens": [1]})))
    with pytest.raises(TraceError, match="column 'output_tokens' is missing"):
        list(open_trace(_parquet(tmp_path, {"prompt_tokens": [1]})))


def test_parquet_rows_are_checked(tmp_path: Path) -> None:
    path = _parquet(tmp_path, {"prompt_tokens": [1, 0], "output_tokens": [1, 1]})
    with pytest.raises(TraceError, match=r"own\.parquet:2: prompt_tokens is 0"):
        list(open_trace(path))
    path = _parquet(tmp_path, {"prompt_tokens": [1, None], "output_tokens": [1, 1]})
    with pytest.raises(TraceError, match=r"own\.parquet:2: key 'prompt_tokens' is missing"):
        list(open_trace(path))


def test_damaged_parquet_is_refused(tmp_path: Path) -> None:
    path = _parquet(tmp_path, {"prompt_tokens": [1], "output_tokens": [1]})
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(TraceError, match="not a readable Parquet file"):
        list(open_trace(path))


def test_arguments_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "good.csv"
    path.write_text(AZURE)
    with pytest.raises(TraceError, match="unknown trace format 'azur'; did you mean 'azure'"):
        open_trace(path, format="azur")
    with pytest.raises(TraceError, match="on_bad_line is 'skip'"):
        open_trace(path, on_bad_line="skip")  # type: ignore[arg-type]
    for limit in (0, -1, True, 2.0, "5"):
        with pytest.raises(TraceError, match="limit is"):
            open_trace(path, limit=limit)  # type: ignore[arg-type]
