"""Another configuration while requests are served: whole or not at all, each request under one version."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest

from tests.serve.gateway.serving import CHAT, SHORTEST, serving


def always(model: str) -> dict[str, Any]:
    return {"policy": {"kind": "always", "model": model}}


def test_a_hundred_swaps_under_load_and_each_answer_under_one_version() -> None:
    with serving(tokens=3, pace_s=0.002) as place:
        stop = threading.Event()
        seen: list[tuple[str, str, int]] = []

        def press() -> None:
            with httpx.Client(base_url=place.url, timeout=30, trust_env=False) as client:
                while not stop.is_set():
                    answer = client.post("/v1/chat/completions", json={**CHAT, "stream": True})
                    told = answer.headers
                    seen.append((told["x-rbx-config-version"], told["x-rbx-model"], answer.status_code))

        threads = [threading.Thread(target=press) for _ in range(6)]
        for thread in threads:
            thread.start()
        rule = {}
        for k in range(100):
            model = ("large", "tiny")[k % 2]
            answer = place.client.put("/v1/config", json=always(model))
            assert answer.status_code == 200, answer.text
            assert answer.json()["version"] == k + 2
            rule[answer.json()["label"]] = model
        stop.set()
        for thread in threads:
            thread.join()
        assert {status for _, _, status in seen} == {200}
        assert len(seen) > 50
        under = [(version, model) for version, model, _ in seen if version in rule]
        assert len({version for version, _ in under}) > 10
        assert all(model == rule[version] for version, model in under)
        place.settled()


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"policy": {"kind": "always", "model": "none"}}, None),
        ({"policy": {"kind": "unheard of"}}, "policy"),
        ({"policy": {"kind": "passthrough", "dispatch": ["random", "round-robin"]}}, None),
        ({"policy": {"kind": "routebalance", "weights": [[1, 1, 1]]}}, "policy.routebalance.weights"),
        ({"policy": {"kind": "routebalance", "weights": [[1.0, 0.0, 0.0]]}}, None),  # no bundle
        ({**SHORTEST, "deadline": {}}, "deadline"),
        ({**SHORTEST, "deadlines": {"first_token_s": -1.0}}, "deadlines.first_token_s"),
        ({**SHORTEST, "retries": {"attempts": 0}, "watch": {"period_s": 0.0}}, "retries.attempts"),
        ({}, "policy"),
    ],
)
def test_a_faulty_configuration_changes_nothing(changes: dict[str, Any], key: str | None) -> None:
    with serving() as place:
        before = place.client.get("/v1/config").json()
        answer = place.client.put("/v1/config", json=changes)
        assert answer.status_code == 400, answer.text
        error = answer.json()["error"]
        if key is not None:
            assert error["param"] == key
        assert place.client.get("/v1/config").json() == before
        assert place.chat().headers["x-rbx-config-version"] == before["label"]


def test_all_faults_are_told_at_once() -> None:
    with serving() as place:
        faulty = {**SHORTEST, "retries": {"attempts": 0}, "watch": {"period_s": 0.0}, "what": 1}
        message = place.client.put("/v1/config", json=faulty).json()["error"]["message"]
        assert "3 fault(s)" in message
        for key in ("retries.attempts", "watch.period_s", "what"):
            assert key in message


def test_an_outdated_writer_is_told_so() -> None:
    with serving() as place:
        first = place.client.get("/v1/config")
        tag = first.headers["etag"]
        assert (
            place.client.put("/v1/config", json=always("tiny"), headers={"if-match": tag}).status_code == 200
        )
        late = place.client.put("/v1/config", json=always("large"), headers={"if-match": tag})
        assert late.status_code == 412
        assert place.client.get("/v1/config").json()["policy"] == "always:tiny/shortest-queue"


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (["*"], 200),
        (['"{tag}"'], 200),
        (['"other"', '"{tag}"'], 200),
        (['"a,b" ,, "{tag}",'], 200),
        (['"other"'], 412),
        (['""'], 412),
        (['W/"{tag}"'], 412),
        (['"other", W/"{tag}"'], 412),
        ([""], 400),
        ([","], 400),
        (["{tag}"], 400),
        (['"{tag}'], 400),
        (['"a""b"'], 400),
        (['*, "{tag}"'], 400),
        (['w/"{tag}"'], 400),
        (['"a b"'], 400),
        (["," * 20_000 + "x"], 400),
    ],
    ids=str,
)
def test_if_match_as_rfc_9110_has_it(given: list[str], status: int) -> None:
    with serving() as place:
        tag = place.client.get("/v1/config").json()["label"]
        headers = [("if-match", value.replace("{tag}", tag)) for value in given]
        answer = place.client.put("/v1/config", json=always("tiny"), headers=headers)
        assert answer.status_code == status, answer.text
        if status == 400:
            assert answer.json()["error"]["param"] == "if-match"
        in_force = place.client.get("/v1/config").json()["policy"]
        assert (in_force == "always:tiny/shortest-queue") == (status == 200)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("via", "1.1 proxy"),
        ("forwarded", "for=10.0.0.1"),
        ("x-forwarded-for", "10.0.0.1"),
        ("x-forwarded-host", "gateway.example"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-anything", "1"),
        ("x-real-ip", "10.0.0.1"),
        ("cf-connecting-ip", "10.0.0.1"),
        ("origin", "http://127.0.0.1:8200"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "same-origin"),
        ("host", "evil.example"),
        ("host", "gateway.example:8200"),
        ("host", "10.0.0.1"),
    ],
)
def test_without_a_token_only_direct_requests_are_let_in(name: str, value: str) -> None:
    with serving() as place:
        for send in (place.client.put, place.client.get):
            more: dict[str, Any] = {"json": always("tiny")} if send == place.client.put else {}
            answer = send("/v1/config", headers={name: value}, **more)
            assert answer.status_code == 403
            assert answer.json()["error"]["code"] == "forbidden"
        assert place.client.get("/v1/config").json()["version"] == 1
    with serving(config_token="s3cret") as place:
        good = {"authorization": "Bearer s3cret", name: value}
        assert place.client.put("/v1/config", json=always("tiny"), headers=good).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8200", "127.0.0.1:1", "[::1]:8200", "a.localhost."])
def test_this_machines_own_names_are_let_in(host: str) -> None:
    with serving() as place:
        headers = {"host": host, "sec-fetch-site": "none"}
        assert place.client.put("/v1/config", json=always("tiny"), headers=headers).status_code == 200


def test_the_configuration_is_guarded() -> None:
    with serving(config_token="s3cret") as place:
        assert place.client.get("/v1/config").status_code == 401
        for given in (b"Bearer wrong", b"s3cret", b"Bearer s3cret2", b"Bearer \xe9"):
            headers = {b"authorization": given}
            answer = place.client.put("/v1/config", json=always("tiny"), headers=headers)
            assert answer.status_code == 401
        good = {"authorization": "Bearer s3cret"}
        assert place.client.get("/v1/config", headers=good).status_code == 200


def test_what_is_in_force_where_the_file_says_nothing_is_shown() -> None:
    """1.5 for each of 4 x 16 seats; 16 KiB of KV blocks hold more than that."""
    with serving() as place:
        assert place.client.get("/v1/config").json()["effective"] == {
            "max_in_flight": 96,
            "typical_prompt_tokens": 256.0,
        }
        told = {**SHORTEST, "admission": {"max_in_flight": 7}, "typical_prompt_tokens": 99}
        assert place.client.put("/v1/config", json=told).json()["effective"] == {
            "max_in_flight": 7,
            "typical_prompt_tokens": 99.0,
        }
