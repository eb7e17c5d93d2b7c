"""Trace readers: every format, compression, counting, and figures of the public traces."""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
from array import array
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from kvbench.errors import TraceError
from kvbench.workload.request import MultimodalItem, Request
from kvbench.workload.traces import FORMATS, detect_format, file_sha256, open_trace
from kvbench.workload.traces.json_rows import OWN_KEYS
from tests.conftest import REPOSITORY, shared_path

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51,9,0
"""
AZURE_2024 = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:10+00:00,2399,6
"""
MOONCAKE = "\n".join(
    json.dumps(row)
    for row in [
        {"timestamp": 0, "input_length": 1030, "output_length": 5, "hash_ids": [0, 1, 2]},
        {"timestamp": 27000, "input_length": 512, "output_length": 7, "hash_ids": [0]},
    ]
)
BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45.5,GPT-4,1087,230,1317,API log
"""
BURSTGPT_3 = (
    "Timestamp,Session ID,Elapsed time,"
    """Model,Request tokens,Response tokens,Total tokens,Log Type
19440110.0,1722ac82,43,GPT-4,906,446,1352,Conversation log
19440161.0,,2,ChatGPT,36,0,36,"API log"
"""
)
SHAREGPT = "\n".join(
    json.dumps(row)
    for row in [
        {
            "input_toks": 3,
            "output_toks": 2,
            "arrival_time_ns": 46926808,
            "input_tok_ids": [3561, 89764, 150756],
            "output_tok_ids": [7, 8],
        },
        {"input_toks": 4, "output_toks": 1, "arrival_time_ns": 347938951},
    ]
)
BAILIAN = "\n".join(
    json.dumps(row)
    for row in [
        {
            "chat_id": 159,
            "parent_chat_id": -1,
            "timestamp": 61.114,
            "input_length": 33,
            "output_length": 132,
            "type": "text",
            "turn": 1,
            "hash_ids": [1089, 1090, 1091],
        },
        {
            "chat_id": 160,
            "parent_chat_id": 159,
            "timestamp": 61.5,
            "input_length": 40,
            "output_length": 1,
            "type": "text",
            "turn": 2,
            "hash_ids": [1089, 1090],
        },
    ]
)
OWN = "\n".join(
    json.dumps(row)
    for row in [
        {"prompt_tokens": 6, "output_tokens": 2},
        {
            "arrival_ms": 10.5,
            "prompt_tokens": 3,
            "output_tokens": 1,
            "prompt_ids": [1, 2, 3],
            "parent": 0,
            "salt": "tenant",
            "lora": "adapter",
        },
        {
            "arrival_ms": 11,
            "prompt_tokens": 9,
            "output_tokens": 1,
            "hash_ids": [4, 5, 6],
            "hash_tokens": 4,
            "multimodal": [
                {"identifier": "cat", "offset_tokens": 1, "tokens": 3},
                {"identifier": "dog", "offset_tokens": 4, "tokens": 5},
            ],
        },
    ]
)
TEXTS = {
    "azure": AZURE,
    "burstgpt": BURSTGPT,
    "mooncake": MOONCAKE,
    "bailian": BAILIAN,
    "sharegpt": SHAREGPT,
    "kvbench": OWN,
}


def write(folder: Path, text: str, name: str = "trace") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def lengths(requests: list[Request]) -> list[tuple[float, int, int]]:
    return [(round(one.arrival_ms, 4), one.prompt_tokens, one.output_tokens) for one in requests]


@pytest.mark.parametrize(("name", "text"), TEXTS.items())
def test_formats_are_told_by_their_first_row(tmp_path: Path, name: str, text: str) -> None:
    path = write(tmp_path, text)
    assert detect_format(path) == name
    assert list(open_trace(path)) == list(open_trace(path, format=name))
    assert name in FORMATS


def test_azure_counts_from_its_first_request(tmp_path: Path) -> None:
    trace = open_trace(write(tmp_path, AZURE))
    assert lengths(list(trace)) == [(0, 374, 44), (4314.579, 396, 109), (4319.41, 9, 1)]
    assert trace.counts.zero_outputs == 1


def test_azure_2024_has_zones_and_whole_seconds(tmp_path: Path) -> None:
    requests = list(open_trace(write(tmp_path, AZURE_2024)))
    assert lengths(requests) == [(0, 2162, 5), (9990.07, 2399, 6)]


def test_mooncake_hash_ids_are_compact(tmp_path: Path) -> None:
    first, second = open_trace(write(tmp_path, MOONCAKE))
    assert first.hash_ids == array("q", [0, 1, 2])
    assert (first.hash_tokens, second.arrival_ms) == (512, 27000)


def test_burstgpt_with_and_without_sessions(tmp_path: Path) -> None:
    assert lengths(list(open_trace(write(tmp_path, BURSTGPT)))) == [
        (0, 472, 18),
        (40500, 1087, 230),
    ]
    trace = open_trace(write(tmp_path, BURSTGPT_3))
    assert lengths(list(trace)) == [(0, 906, 446), (51000, 36, 1)]
    assert trace.counts.zero_outputs == 1


def test_sharegpt_token_ids_are_optional(tmp_path: Path) -> None:
    first, second = open_trace(write(tmp_path, SHAREGPT))
    assert first.prompt_ids == array("q", [3561, 89764, 150756])
    assert first.output_ids == array("q", [7, 8])
    assert second.prompt_ids is None
    assert first.arrival_ms == pytest.approx(46.926808)


def test_bailian_chunks_are_16_tokens_and_a_missing_last_one_is_private(tmp_path: Path) -> None:
    first, second = open_trace(write(tmp_path, BAILIAN))
    assert (first.arrival_ms, first.hash_tokens) == (61114, 16)
    assert list(second.hash_ids[:2]) == [1089, 1090]
    assert second.hash_ids[2] < 0


def test_own_rows_are_the_fields_of_a_request(tmp_path: Path) -> None:
    first, second, third = open_trace(write(tmp_path, OWN))
    assert first == Request(arrival_ms=0, prompt_tokens=6, output_tokens=2)
    assert (second.parent, second.salt, second.lora) == (0, "tenant", "adapter")
    assert (third.hash_tokens, list(third.hash_ids)) == (4, [4, 5, 6])
    assert third.multimodal == (
        MultimodalItem(identifier="cat", offset_tokens=1, tokens=3),
        MultimodalItem(identifier="dog", offset_tokens=4, tokens=5),
    )


def test_every_key_of_own_rows_is_documented() -> None:
    page = (REPOSITORY / "docs" / "own-traces.md").read_text("utf-8")
    assert tuple(re.findall(r"^\| `(\w+)` \|", page, re.M)) == OWN_KEYS
    assert tuple(one.name for one in dataclasses.fields(Request)) == OWN_KEYS


def test_own_rows_as_parquet(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in OWN.splitlines()]
    path = tmp_path / "trace.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=_own_schema()), path)
    assert detect_format(path) == "parquet"
    assert list(open_trace(path)) == list(open_trace(write(tmp_path, OWN)))


def _own_schema() -> pa.Schema:
    ids = pa.list_(pa.int64())
    return pa.schema(
        {
            "arrival_ms": pa.float64(),
            "prompt_tokens": pa.int64(),
            "output_tokens": pa.int64(),
            "prompt_ids": ids,
            "hash_ids": ids,
            "hash_tokens": pa.int64(),
            "parent": pa.int64(),
            "salt": pa.string(),
            "lora": pa.string(),
            "multimodal": pa.list_(
                pa.struct(
                    {
                        "identifier": pa.string(),
                        "offset_tokens": pa.int64(),
                        "tokens": pa.int64(),
                    }
                )
            ),
        }
    )


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_compressed_files_read_like_plain_ones(tmp_path: Path, text: str) -> None:
    plain = list(open_trace(write(tmp_path, text)))
    zipped, zstd = tmp_path / "trace.gz", tmp_path / "trace.zst"
    zipped.write_bytes(gzip.compress(text.encode()))
    zstd.write_bytes(zstandard.compress(text.encode()))
    assert list(open_trace(zipped)) == plain
    assert list(open_trace(zstd)) == plain


def test_the_name_says_nothing_about_the_format(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(gzip.compress(MOONCAKE.encode()))
    assert detect_format(path) == "mooncake"


def test_carriage_returns_and_a_byte_order_mark_are_no_content(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(b"\xef\xbb\xbf" + AZURE.replace("\n", "\r\n").encode())
    assert len(list(open_trace(path))) == 3


def test_a_trace_can_be_read_again(tmp_path: Path) -> None:
    trace = open_trace(write(tmp_path, AZURE))
    assert list(trace) == list(trace)
    assert trace.counts.requests == 3


def test_blank_lines_at_the_end_are_no_rows(tmp_path: Path) -> None:
    assert len(list(open_trace(write(tmp_path, MOONCAKE + "\n\n\n")))) == 2


def test_the_limit_counts_rows(tmp_path: Path) -> None:
    assert len(list(open_trace(write(tmp_path, AZURE), limit=2))) == 2


def test_a_row_before_its_predecessor_arrives_with_it(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in MOONCAKE.splitlines()]
    rows.append({**rows[1], "timestamp": 5})
    trace = open_trace(write(tmp_path, "\n".join(map(json.dumps, rows))))
    assert [one.arrival_ms for one in trace] == [0, 27000, 27000]
    assert trace.counts.reordered == 1
    assert any("1 request of" in one and "predecessor" in one for one in trace.remarks())


def test_an_absolute_clock_may_run_backwards(tmp_path: Path) -> None:
    path = write(tmp_path, AZURE + "2023-11-16 18:15:40,7,7\n")
    trace = open_trace(path)
    assert [round(one.arrival_ms) for one in trace] == [0, 4315, 4319, 4319]
    assert trace.counts.reordered == 1


def test_long_lines_cross_the_read_buffer(tmp_path: Path) -> None:
    row = {
        "input_toks": 400_000,
        "output_toks": 1,
        "arrival_time_ns": 0,
        "input_tok_ids": list(range(400_000)),
    }
    (request,) = open_trace(write(tmp_path, json.dumps(row)))
    assert np.array_equal(np.asarray(request.prompt_ids), np.arange(400_000))


def test_the_digest_is_of_the_files_bytes(tmp_path: Path) -> None:
    path = write(tmp_path, "abc")
    assert file_sha256(path).startswith("ba7816bf8f01cfea414140de5dae2223")


@pytest.mark.parametrize(
    ("relative", "rows", "mean_prompt"),
    [
        ("mooncake/conversation_trace.jsonl", 12_031, 12_035),
        ("mooncake/synthetic_trace.jsonl", 3_993, 15_325),
        ("azure2023/AzureLLMInferenceTrace_conv.csv", 19_366, 1_155),
        ("azure2023/AzureLLMInferenceTrace_code.csv", 8_819, 2_048),
        ("llmservingsim/sharegpt-llama-3.1-8b-300-sps10.jsonl", 300, 857),
    ],
)
def test_public_traces(relative: str, rows: int, mean_prompt: int) -> None:
    trace = open_trace(shared_path(f"traces/{relative}"))
    prompts = [one.prompt_tokens for one in trace]
    assert len(prompts) == rows
    assert round(sum(prompts) / rows) == mean_prompt
    assert trace.counts.rejected == trace.counts.zero_outputs == trace.counts.reordered == 0


def test_unreadable_files_are_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(TraceError, match="cannot be read"):
            open_trace(path)
