"""Every question to every model: what is kept of it, and what the next run asks again."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from rbx.errors import ConfigError, ServerError
from rbx.label.broadcast import broadcast
from rbx.label.journal import Journal
from rbx.label.progress import Silent
from tests.label.broadcasting import model, questions, rows, run, source
from tests.label.scripted_server import Reply, answer, prompt_of, scripted


def test_each_model_is_asked_each_prompt_once_and_as_the_spec_says(tmp_path: Path) -> None:
    with scripted(lambda path, body: answer(f"to {prompt_of(body)}")) as server:
        of = source(model("small", server), model("large", server), system="Be brief.", stop=("###",))
        report = run(tmp_path / "a.jsonl", questions(3), of)
    assert [each.ok for each in report.models] == [3, 3]
    assert report.unasked == 0
    kept = rows(tmp_path / "a.jsonl")
    assert {(row["prompt_id"], row["model"]) for row in kept} == {
        (question.prompt_id, name) for question in questions(3) for name in ("small", "large")
    }
    assert {row["text"] for row in kept} == {"to prompt 0", "to prompt 1", "to prompt 2"}
    assert len(server.seen) == 6
    path, body = server.seen[0]
    assert path == "/v1/chat/completions"
    assert body == {
        "model": "scripted",
        "stream": False,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": prompt_of(body)},
        ],
        "temperature": 0.0,
        "frequency_penalty": 1.2,
        "max_tokens": 1024,
        "stop": ["###"],
    }


def test_completions_get_the_bare_prompt(tmp_path: Path) -> None:
    with scripted(lambda path, body: answer("x")) as server:
        of = source(model("m", server), api="completions", extra={"min_tokens": 3}, frequency_penalty=0.0)
        run(tmp_path / "a.jsonl", questions(1), of)
    assert server.seen == [
        (
            "/v1/completions",
            {
                "model": "scripted",
                "stream": False,
                "prompt": "prompt 0",
                "temperature": 0.0,
                "frequency_penalty": 0.0,
                "max_tokens": 1024,
                "min_tokens": 3,
            },
        )
    ]


def test_every_kind_of_answer_has_its_status(tmp_path: Path) -> None:
    replies = {
        "prompt 0": answer("fine"),
        "prompt 1": answer("cut", finish_reason="length"),
        "prompt 2": answer(" \n\t"),
        "prompt 3": answer(None),
        "prompt 4": answer("half", finish_reason="content_filter"),
        "prompt 5": answer("half", finish_reason="abort"),
        "prompt 6": answer("unsaid", finish_reason=None),
        "prompt 7": Reply({"error": {"message": "context too short"}}, status=400),
        "prompt 8": Reply(status=500),
        "prompt 9": Reply(b"<html>"),
    }
    with scripted(lambda path, body: replies[prompt_of(body)]) as server:
        report = run(tmp_path / "a.jsonl", questions(10), source(model("m", server)))
    found = {int(row["prompt_id"][2:]): row for row in rows(tmp_path / "a.jsonl")}
    told = {
        number: (row["status"], row["text"], row["finish_reason"]) for number, row in sorted(found.items())
    }
    assert told == {
        0: ("ok", "fine", "stop"),
        1: ("ok", "cut", "length"),
        2: ("empty", " \n\t", "stop"),
        3: ("empty", "", "stop"),
        4: ("ok", "half", None),
        5: ("error", None, None),
        6: ("ok", "unsaid", None),
        7: ("error", None, None),
        8: ("error", None, None),
        9: ("error", None, None),
    }
    assert [found[number]["error"] for number in (0, 1, 2, 3, 6)] == [None] * 5
    assert "content_filter" in found[4]["error"]
    assert "context too short" in found[7]["error"]
    assert "HTTP 500" in found[8]["error"]
    (made,) = report.models
    assert (made.ok, made.empty, made.error) == (4, 2, 4)


def test_a_second_run_asks_only_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    failing = {"prompt 1", "prompt 3"}

    def rule(_: str, body: dict[str, Any]) -> Reply:
        return Reply(status=422) if prompt_of(body) in failing else answer("x")

    with scripted(rule) as server:
        of = source(model("m", server))
        run(path, questions(4), of)
        failing.clear()
        server.seen.clear()
        report = run(path, questions(6), of)
        assert sorted(prompt_of(body) for _, body in server.seen) == ["prompt 4", "prompt 5"]
        assert report.models[0].kept == 4
        server.seen.clear()
        run(path, questions(6), of, retry_failed=True)
        assert sorted(prompt_of(body) for _, body in server.seen) == ["prompt 1", "prompt 3"]
        server.seen.clear()
        run(path, questions(6), source(model("m", server), temperature=0.5))
        assert len(server.seen) == 6, "another recipe makes other answers"
        server.seen.clear()
        run(path, questions(6), source(model("m", server, concurrency=9, deadline_s=3.0)))
        assert server.seen == [], "how hard a server is asked does not change its answers"


def test_a_finished_broadcast_needs_neither_server_nor_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "secret")
    with scripted(lambda path, body: answer("x")) as server:
        of = source(model("m", server, api_key_env="SOME_KEY"))
        run(tmp_path / "a.jsonl", questions(3), of)
    monkeypatch.delenv("SOME_KEY")
    report = run(tmp_path / "a.jsonl", questions(3), of)
    assert report.models[0].kept == 3


def test_no_endpoint_gets_more_at_once_than_it_allows(tmp_path: Path) -> None:
    def rule(_: str, body: dict[str, Any]) -> Reply:
        return answer("x", delay_s=0.02)

    with scripted(rule) as first, scripted(rule) as second:
        of = source(model("a", first, concurrency=3), model("b", second, concurrency=7))
        run(tmp_path / "a.jsonl", questions(30), of)
    assert (first.most_at_once, second.most_at_once) == (3, 7)


def test_a_slow_model_does_not_hold_up_a_fast_one(tmp_path: Path) -> None:
    fast_is_done = threading.Event()
    fast_count = 0

    def fast(_: str, body: dict[str, Any]) -> Reply:
        nonlocal fast_count
        fast_count += 1
        if fast_count == 20:
            fast_is_done.set()
        return answer("x")

    waited: list[bool] = []

    def slow(_: str, body: dict[str, Any]) -> Reply:
        waited.append(fast_is_done.wait(30.0))  # this server has a thread of its own
        return answer("x")

    with scripted(fast) as first, scripted(slow) as second:
        of = source(model("fast", first, concurrency=2), model("slow", second, concurrency=1))
        report = run(tmp_path / "a.jsonl", questions(20), of)
    assert [each.ok for each in report.models] == [20, 20]
    assert waited == [True] * 20


def test_all_faults_of_all_endpoints_are_told_before_anything_is_asked(tmp_path: Path) -> None:
    with scripted(lambda path, body: answer("x")) as gone:
        pass
    with scripted(lambda path, body: answer("x"), models=("other", "third")) as server:
        of = source(model("a", server), model("b", gone), model("c", server, served_name="third"))
        with pytest.raises(ServerError) as caught:
            run(tmp_path / "a.jsonl", questions(2), of)
    assert server.seen == []
    first, second = str(caught.value).splitlines()
    assert "source.models.0.endpoint.served_name" in first
    assert "'other', 'third'" in first
    assert "source.models.1.endpoint.url" in second
    assert "unreachable" in second


def test_a_model_without_an_endpoint_and_a_missing_key_are_told_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    of = source({"name": "a"}, model("b", "http://127.0.0.1:9/v1", api_key_env="NO_SUCH_KEY"))
    with pytest.raises(ConfigError) as caught:
        run(tmp_path / "a.jsonl", questions(2), of)
    assert "source.models.0.endpoint" in str(caught.value)
    assert "--offline-vllm" in str(caught.value)
    assert "source.models.1" in str(caught.value)
    assert "NO_SUCH_KEY" in str(caught.value)


@pytest.mark.parametrize("fault", [Reply(status=502), Reply(status=401), Reply(hang=True)])
def test_an_endpoint_that_has_gone_ends_the_stage_and_leaves_no_errors(tmp_path: Path, fault: Reply) -> None:
    path = tmp_path / "a.jsonl"
    alive = 10
    left = [alive]

    def rule(_: str, body: dict[str, Any]) -> Reply:
        left[0] -= 1
        return answer("x") if left[0] >= 0 else fault

    with scripted(rule) as server:
        of = source(model("m", server, deadline_s=0.5, attempts=1))
        with pytest.raises(ServerError, match=r"m at http.*run the same command again") as caught:
            run(path, questions(100), of)
        assert f"{alive} answers are kept" in str(caught.value)
        assert [row["status"] for row in rows(path)] == ["ok"] * alive
        assert len(server.seen) < 60, "an endpoint that has gone is not asked everything"
        left[0] = 1000
        server.seen.clear()
        report = run(path, questions(100), of)
    assert (report.models[0].kept, report.models[0].ok) == (alive, 90)


def test_failures_between_successes_are_rows(tmp_path: Path) -> None:
    def rule(_: str, body: dict[str, Any]) -> Reply:
        return answer("x") if int(prompt_of(body).split()[1]) % 3 == 0 else Reply(status=503)

    with scripted(rule) as server:
        report = run(tmp_path / "a.jsonl", questions(90), source(model("m", server)))
    assert (report.models[0].ok, report.models[0].error, report.unasked) == (30, 60, 0)
    assert len(rows(tmp_path / "a.jsonl")) == 90


def test_when_the_last_questions_fail_it_matters_whether_the_server_lives(tmp_path: Path) -> None:
    def rule(_: str, body: dict[str, Any]) -> Reply:
        return answer("x") if int(prompt_of(body).split()[1]) < 5 else Reply(status=503)

    with scripted(rule) as server:
        report = run(tmp_path / "lives.jsonl", questions(8), source(model("m", server)))
        assert (report.models[0].ok, report.models[0].error) == (5, 3)

    listings = [200, 503, 503]
    with (
        scripted(rule, listing_status=lambda: listings.pop(0)) as server,
        pytest.raises(ServerError, match="last 3 requests"),
    ):
        run(tmp_path / "gone.jsonl", questions(8), source(model("m", server)))
    assert [row["status"] for row in rows(tmp_path / "gone.jsonl")] == ["ok"] * 5


def test_an_endpoint_that_goes_lets_the_others_finish_what_is_under_way(tmp_path: Path) -> None:
    def slow(_: str, body: dict[str, Any]) -> Reply:
        return answer("x", delay_s=0.3)

    with scripted(lambda path, body: Reply(status=500)) as dead, scripted(slow) as lives:
        of = source(model("dead", dead), model("lives", lives, concurrency=5))
        with pytest.raises(ServerError, match="dead at"):
            run(tmp_path / "a.jsonl", questions(200), of)
    kept = rows(tmp_path / "a.jsonl")
    assert {row["model"] for row in kept} == {"lives"}
    assert len(kept) == len(lives.seen), "no answer that was paid for is lost"
    assert len(kept) < 200


def test_a_storm_of_429_is_waited_out(tmp_path: Path) -> None:
    seen: dict[str, int] = {}

    def rule(_: str, body: dict[str, Any]) -> Reply:
        prompt = prompt_of(body)
        seen[prompt] = seen.get(prompt, 0) + 1
        storm = Reply(status=429, headers={"Retry-After": "0.01"})
        return storm if seen[prompt] <= 3 else answer("x")

    with scripted(rule) as server:
        report = run(tmp_path / "a.jsonl", questions(40), source(model("m", server, attempts=4)))
    assert (report.models[0].ok, report.models[0].error) == (40, 0)
    assert set(seen.values()) == {4}


def test_a_stop_finishes_what_is_under_way_and_the_next_run_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"

    async def stopped() -> int:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def rule(_: str, body: dict[str, Any]) -> Reply:
            if len(server.seen) == 12:
                loop.call_soon_threadsafe(stop.set)
            return answer("x", delay_s=0.05)

        with scripted(rule) as server:
            of = source(model("m", server))
            with Journal(path) as journal:
                report = await broadcast(questions(50), of, journal, Silent(), stop)
            assert report.models[0].ok == len(server.seen)
            assert 0 < report.unasked == 50 - len(server.seen)
            return len(server.seen)

    first = asyncio.run(stopped())
    assert len(rows(path)) == first
    with scripted(lambda path, body: answer("x")) as server:
        run(path, questions(50), source(model("m", server)))
    assert len(server.seen) == 50 - first
    assert len({row["prompt_id"] for row in rows(path)}) == len(rows(path)) == 50


def test_no_key_reaches_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-very-secret")

    def rule(_: str, body: dict[str, Any]) -> Reply:
        if prompt_of(body) == "prompt 0":
            return Reply({"error": "Bearer sk-very-secret asked too much"}, status=400)
        return answer("x")

    with scripted(rule) as server:
        run(tmp_path / "a.jsonl", questions(3), source(model("m", server, api_key_env="SOME_KEY")))
    assert all(each["Authorization"] == "Bearer sk-very-secret" for each in server.headers)
    raw = (tmp_path / "a.jsonl").read_bytes()
    assert raw.count(b"\n") == 3
    assert b"sk-very" not in raw


@pytest.mark.parametrize("seed", range(3))
def test_whatever_goes_wrong_every_pair_has_one_row_and_its_own_answer(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    faults = [
        Reply(status=500),
        Reply(status=429, headers={"Retry-After": "0"}),
        Reply(status=400),
        Reply(status=404),
        Reply(b"{"),
        Reply({"choices": [None]}),
        Reply(hang=True),
    ]

    def rule(_: str, body: dict[str, Any]) -> Reply:
        lucky = dice.random() < 0.6
        return answer(prompt_of(body)[::-1], delay_s=dice.random() / 200) if lucky else dice.choice(faults)

    path, asked = tmp_path / "a.jsonl", questions(60)
    with scripted(rule) as server:
        of = source(model("a", server, deadline_s=0.5), model("b", server, deadline_s=0.5, concurrency=8))
        report = run(path, asked, of)
        assert report.unasked == 0
        pairs = {(row["prompt_id"], row["model"]) for row in rows(path)}
        assert len(pairs) == len(rows(path)) == 120
        failed = sum(each.error for each in report.models)
        assert failed > 0
        for _ in range(20):
            report = run(path, asked, of, retry_failed=True)
            assert sum(each.ok + each.error for each in report.models) == failed
            failed = sum(each.error for each in report.models)
            if not failed:
                break
    prompts = {question.prompt_id: question.prompt for question in asked}
    last = {(row["prompt_id"], row["model"]): row["text"] for row in rows(path)}
    assert last == {pair: prompts[pair[0]][::-1] for pair in pairs}
