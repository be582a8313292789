"""Pages of ``/metrics`` are kept as they came, whatever they hold."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.errors import StoreError
from rbx.sweep.live.server_pages import FOLDER, busy, gauge, mock_lag_s, read_pages, write_pages

_TEXTS = st.text(alphabet=st.characters(codec="utf-8"), max_size=200)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(_TEXTS, _TEXTS, max_size=4))
def test_what_is_read_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, pages: dict[str, str]
) -> None:
    folder = tmp_path_factory.mktemp("sweep")
    write_pages(folder, "cell", "before", pages)
    assert read_pages(folder, "cell", "before") == pages


def test_a_page_that_holds_the_mark_of_another_does_not_become_two(tmp_path: Path) -> None:
    pages = {"a/0": '# rbx-page {"instance": "b/0", "bytes": 1}\nx\n', "c/0": ""}
    write_pages(tmp_path, "cell", "after", pages)
    assert read_pages(tmp_path, "cell", "after") == pages


def test_before_and_after_stand_beside_each_other_compressed(tmp_path: Path) -> None:
    page = 'vllm:num_requests_running{engine="0"} 3.0\n' * 1000
    for when in ("before", "after"):
        write_pages(tmp_path, "cell", "before" if when == "before" else "after", {"a/0": page})
    files = sorted(path.name for path in (tmp_path / FOLDER).iterdir())
    assert files == ["cell.after.txt.zst", "cell.before.txt.zst"]
    assert (tmp_path / FOLDER / files[0]).stat().st_size < len(page) / 50


def test_a_file_that_is_none_or_not_whole_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such file"):
        read_pages(tmp_path, "cell", "before")
    write_pages(tmp_path, "cell", "before", {"a/0": "x" * 1000})
    path = tmp_path / FOLDER / "cell.before.txt.zst"
    for damaged in (path.read_bytes()[:-10], b"# rbx-page", b"\0" * 40):
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match="not the pages"):
            read_pages(tmp_path, "cell", "before")
    for head in (b'{"instance": "a/0", "bytes": 1e400}', b"[" * 100_000):
        with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as stream:
            stream.write(b"# rbx-page " + head + b"\n")
        with pytest.raises(StoreError, match="not the pages"):
            read_pages(tmp_path, "cell", "before")
    write_pages(tmp_path, "cell", "before", {})
    assert read_pages(tmp_path, "cell", "before") == {}


def test_who_is_busy_is_known_only_from_whole_gauges() -> None:
    whole = (
        'vllm:num_requests_running{engine="0"} 3.0\nvllm:num_requests_waiting{engine="0"} 2.0\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.5\n'
    )
    assert busy(whole) == 5
    assert busy(whole.replace("3.0", "0.0").replace("2.0", "0.0")) == 0
    for broken in ("", "garbage", whole.replace("3.0", "NaN"), whole.replace("3.0", "-1.0")):
        assert busy(broken) is None
    assert gauge("rbx_requests_in_flight 4.0\nrbx_requests_in_flight_more 9", "rbx_requests_in_flight") == 4.0
    assert gauge("rbx_requests_in_flight x", "rbx_requests_in_flight") is None


def test_the_worst_lag_of_mock_servers_is_found_and_real_servers_have_none() -> None:
    pages = {"gateway": "", "a/0": "rbx_mock_lag_seconds 0.004", "a/1": "x 1\nrbx_mock_lag_seconds 0.25\n"}
    assert mock_lag_s(pages) == 0.25
    assert mock_lag_s({"a/0": "vllm:num_requests_running 3.0"}) is None
