from __future__ import annotations

import csv
import gzip
import json
from datetime import datetime
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from rbx.errors import DatasetError
from rbx.load.traces import read_trace

AZURE_HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
AZURE_ROWS = "2023-11-16 23:59:59.9999999,374,44\n2023-11-17 00:00:00.0000001,396,109\n"
MOONCAKE_ROWS = (
    '{"timestamp": 100, "input_length": 7, "output_length": 3, "hash_ids": [0, 1]}\n'
    '{"timestamp": 350, "input_length": 9, "output_length": 4, "hash_ids": [0, 2]}\n'
)


def written(tmp_path: Path, text: str, *, compressed: bool = False) -> Path:
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(text.encode()) if compressed else text.encode())
    return path


@pytest.mark.parametrize("compressed", [False, True])
def test_azure_stamps_keep_their_seventh_digit(tmp_path: Path, compressed: bool) -> None:
    trace = read_trace(written(tmp_path, AZURE_HEAD + AZURE_ROWS, compressed=compressed), "azure")
    np.testing.assert_allclose(trace.arrival_s, [0.0, 2e-7], atol=1e-12)
    assert trace.input_tokens.tolist() == [374, 396]
    assert trace.output_tokens.tolist() == [44, 109]
    assert trace.prefix_blocks == ()


@pytest.mark.parametrize("compressed", [False, True])
def test_mooncake_stamps_are_milliseconds(tmp_path: Path, compressed: bool) -> None:
    trace = read_trace(written(tmp_path, MOONCAKE_ROWS, compressed=compressed), "mooncake")
    np.testing.assert_allclose(trace.arrival_s, [0.0, 0.25])
    assert trace.input_tokens.tolist() == [7, 9]
    assert trace.output_tokens.tolist() == [3, 4]
    assert trace.prefix_blocks == ((0, 1), (0, 2))


def test_azure_survives_crlf_and_a_byte_order_mark(tmp_path: Path) -> None:
    text = "\ufeff" + (AZURE_HEAD + AZURE_ROWS).replace("\n", "\r\n")
    assert len(read_trace(written(tmp_path, text), "azure").arrival_s) == 2


BAD_AZURE = {
    "": "no arrivals",
    AZURE_HEAD: "no arrivals",
    "TIMESTAMP,ContextTokens\n": "row 1: no column GeneratedTokens",
    AZURE_HEAD + "yesterday,1,2\n": "row 2, TIMESTAMP: 'yesterday'",
    AZURE_HEAD + "2023-11-16 18:15:46.68x,1,2\n": "row 2, TIMESTAMP",
    AZURE_HEAD + "2023-11-16 18:15:46,nan,2\n": "row 2, ContextTokens: 'nan'",
    AZURE_HEAD + "2023-11-16 18:15:46,-4,2\n": "row 2, ContextTokens: '-4'",
    AZURE_HEAD + "2023-11-16 18:15:46,4,2.5\n": "row 2, GeneratedTokens: '2.5' is not a whole number",
    AZURE_HEAD + "2023-11-16 18:15:46,4\n": "row 2, GeneratedTokens: None",
    AZURE_HEAD + "2023-11-16 18:15:46,4,2\n2023-11-16 18:15:45.5,4,2\n": "row 3: the stamp lies 0.5 s before",
}


@pytest.mark.parametrize(("text", "message"), BAD_AZURE.items(), ids=range(len(BAD_AZURE)))
def test_bad_azure_rows_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(DatasetError) as caught:
        read_trace(path, "azure")
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def mooncake_row(timestamp: str = "0", input_length: str = "1", hash_ids: str = "[]") -> str:
    head = f'{{"timestamp": {timestamp}, "input_length": {input_length}'
    return f'{head}, "output_length": 1, "hash_ids": {hash_ids}}}\n'


BAD_MOONCAKE = {
    "\n": "no arrivals",
    "{": "row 1: not valid JSON",
    "3\n": "row 1: expected an object",
    "[" * 100_000: "row 1: not valid JSON",
    "{}\n": "row 1, timestamp: None",
    mooncake_row("-1"): "row 1, timestamp: -1",
    mooncake_row("NaN"): "row 1, timestamp: nan",
    mooncake_row() + mooncake_row("1e999"): "row 2, timestamp: inf",
    mooncake_row("true"): "row 1, timestamp: True",
    mooncake_row(input_length="-3"): "row 1, input_length: -3",
    mooncake_row(hash_ids='["a"]'): "row 1, hash_ids",
    mooncake_row("5") + "\n" + mooncake_row("4"): "row 3: the stamp lies 0.001 s before that of row 1",
}


@pytest.mark.parametrize(("text", "message"), BAD_MOONCAKE.items(), ids=range(len(BAD_MOONCAKE)))
def test_bad_mooncake_rows_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(DatasetError) as caught:
        read_trace(path, "mooncake")
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("format", ["azure", "mooncake"])
def test_unreadable_files_are_named(tmp_path: Path, format: Literal["azure", "mooncake"]) -> None:
    with pytest.raises(DatasetError, match="no such trace file"):
        read_trace(tmp_path / "absent", format)
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(b"x" * 10_000)[:-12])
    with pytest.raises(DatasetError, match="can't be read"):
        read_trace(cut, format)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00\x80" * 9)
    with pytest.raises(DatasetError, match="can't be read"):
        read_trace(binary, format)


@pytest.mark.shared
def test_azure_trace_agrees_with_a_plain_reading(shared_data: Path) -> None:
    path = shared_data / "traces/azure2023_conv/AzureLLMInferenceTrace_conv.csv.gz"
    trace = read_trace(path, "azure")
    with gzip.open(path, "rt", newline="") as file:
        rows = list(csv.reader(file))[1:]
    stamps = [datetime.fromisoformat(row[0][:26]) for row in rows]
    plain = [(stamp - stamps[0]).total_seconds() for stamp in stamps]
    assert len(trace.arrival_s) == len(rows) == 19_366
    np.testing.assert_allclose(trace.arrival_s, plain, atol=1.1e-6)
    assert trace.input_tokens.tolist() == [int(row[1]) for row in rows]
    assert trace.output_tokens.tolist() == [int(row[2]) for row in rows]


@pytest.mark.shared
def test_mooncake_trace_agrees_with_a_plain_reading(shared_data: Path) -> None:
    path = shared_data / "traces/mooncake_synthetic/synthetic_trace.jsonl.gz"
    trace = read_trace(path, "mooncake")
    with gzip.open(path, "rt") as file:
        rows = [json.loads(line) for line in file]
    assert len(rows) == 3_993
    np.testing.assert_allclose(
        trace.arrival_s * 1000, [row["timestamp"] - rows[0]["timestamp"] for row in rows]
    )
    assert [list(blocks) for blocks in trace.prefix_blocks] == [row["hash_ids"] for row in rows]


@pytest.mark.parametrize("count", ["1e30", "9" * 400, "-1"])
def test_counts_that_no_request_has_are_refused(tmp_path: Path, count: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,{count},3\n")
    with pytest.raises(DatasetError, match="row 2, ContextTokens"):
        read_trace(path, "azure")
    lines = tmp_path / "trace.jsonl"
    lines.write_text(f'{{"timestamp": 0, "input_length": {count}, "output_length": 3}}\n')
    with pytest.raises(DatasetError, match="row 1"):
        read_trace(lines, "mooncake")
