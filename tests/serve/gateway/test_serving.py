"""A request through the gateway, whole and streamed."""

from __future__ import annotations

from urllib.parse import unquote

import httpx
import orjson
import pytest

from rbx.serve.exchange import Piece
from tests.heads.pools import pool, tier
from tests.serve.gateway.serving import CHAT, serving
from tests.serve.gateway.stand_in import StandInExchange


def test_a_plain_answer_passes_byte_for_byte_with_its_headers() -> None:
    with serving() as place:
        answer = place.chat(temperature=0.5, tools=[{"type": "function"}], unheard_of={"a": [1]})
        assert answer.status_code == 200
        served = [instance for instance in place.instances if instance.bodies]
        assert len(served) == 1
        body = served[0].bodies[0]
        assert answer.content == StandInExchange(served[0], body).plain()
        assert served[0].paths == ["/chat/completions"]
        index = place.instances.index(served[0])
        instance = place.gateway.pool.instances[index]
        assert answer.headers["x-rbx-instance"] == instance.name
        assert answer.headers["x-rbx-model"] == instance.tier.model == body["model"]
        assert answer.headers["x-rbx-attempts"] == "1"
        assert answer.headers["x-rbx-config-version"].startswith("1-")
        assert float(answer.headers["x-rbx-decision-ms"]) > 0
        assert float(answer.headers["x-rbx-cost-usd"]) > 0
        sent = {key: body[key] for key in ("messages", "temperature", "tools", "unheard_of")}
        assert sent == {
            "messages": CHAT["messages"],
            "temperature": 0.5,
            "tools": [{"type": "function"}],
            "unheard_of": {"a": [1]},
        }
        assert body["max_tokens"] == 1014  # what the context of 1,024 leaves beside 39 characters
        place.settled()


def test_a_stream_passes_byte_for_byte_but_for_the_usage_nobody_asked_for() -> None:
    with serving(tokens=20) as place:
        for options, hidden in ((None, True), ({"include_usage": True}, False)):
            answer = place.chat(stream=True, stream_options=options)
            served = next(i for i in place.instances if i.bodies and i.bodies[-1].get("stream"))
            body = served.bodies.pop()
            assert body["stream_options"] == {"include_usage": True}
            pieces = StandInExchange(served, body).events()
            expected = [p.raw for p in pieces if not (hidden and b'"choices":[]' in p.raw)]
            assert len(expected) == (22 if hidden else 23)
            assert answer.content == b"".join(expected)
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert answer.headers["x-rbx-instance"]
        place.settled()


def test_names_that_no_header_can_carry_are_percent_encoded() -> None:
    with serving(over=pool(tier("large-a", "модель-7Б", 0.03), tier("tiny-b", "é 50%", 0.01))) as place:
        for model, tier_name in (("модель-7Б", "large-a"), ("é 50%", "tiny-b")):
            for stream in (False, True):
                answer = place.chat(model=model, stream=stream)
                assert answer.status_code == 200, answer.text
                assert answer.headers["x-rbx-model"].isascii()
                assert unquote(answer.headers["x-rbx-model"]) == model
                assert answer.headers["x-rbx-instance"].startswith(f"{tier_name}/")


def test_an_answer_that_the_gateway_breaks_off_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(exchange: StandInExchange) -> list[Piece]:
        raise ZeroDivisionError

    monkeypatch.setattr(StandInExchange, "events", broken)
    with serving() as place:
        with pytest.raises(httpx.RemoteProtocolError):
            place.chat(stream=True)
        place.settled()
        monkeypatch.setattr(StandInExchange, "plain", broken)
        assert place.chat().status_code == 500
        page = place.client.get("/metrics").text
        for status in (200, 500):
            assert f'rbx_requests_total{{path="chat/completions",status="{status}"}} 1.0' in page


def test_completions_and_models() -> None:
    with serving() as place:
        answer = place.client.post("/v1/completions", json={"prompt": "tell me", "max_tokens": 3})
        assert answer.status_code == 200, answer.text
        served = next(i for i in place.instances if i.bodies)
        assert served.paths == ["/completions"]
        assert served.bodies[0]["max_tokens"] == 3
        names = [model["id"] for model in place.client.get("/v1/models").json()["data"]]
        assert names == ["auto", "rbx", "large", "tiny"]
        for name in ("large", "tiny"):
            for _ in range(4):
                assert place.chat(model=name).headers["x-rbx-model"] == name


def test_the_cap_is_put_where_the_client_put_its_own() -> None:
    with serving(tokens=100) as place:

        def sent() -> dict[str, object]:
            bodies = [instance.bodies.pop() for instance in place.instances if instance.bodies]
            assert len(bodies) == 1
            return {name: value for name, value in bodies[0].items() if "tokens" in name}

        budget = {"x-rbx-budget-usd": f"{5 * 0.1e-6 + 7 * 0.2e-6:.12g}"}
        place.chat(budget, max_completion_tokens=50, min_tokens=20)
        assert sent() == {"max_completion_tokens": 7, "min_tokens": 7}
        place.chat(budget, max_completion_tokens=5, max_tokens=60)
        assert sent() == {"max_completion_tokens": 5, "max_tokens": 5}
        place.client.post("/v1/completions", json={"prompt": "x" * 20, "max_completion_tokens": "?"})
        assert sent() == {"max_completion_tokens": "?", "max_tokens": 1019}


def test_what_is_for_the_gateway_alone_is_not_sent_on() -> None:
    with serving() as place:
        answer = place.chat({"x-rbx-budget-usd": "0.5"}, rbx={"slo_ttft_ms": 900, "budget_usd": 1})
        assert answer.status_code == 200, answer.text
        body = next(i for i in place.instances if i.bodies).bodies[0]
        assert "rbx" not in body
        assert b"budget" not in orjson.dumps(body)


def test_pages() -> None:
    with serving() as place:
        place.chat()
        assert place.client.get("/healthz").status_code == 200
        ready = place.client.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["models"]["tiny"] == ["tiny-b/0", "tiny-b/1"]
        page = place.client.get("/metrics").text
        assert 'rbx_decisions_total{mode="policy",policy="passthrough/shortest-queue"} 1.0' in page
        assert 'rbx_inflight{instance="tiny-b/0"} 0.0' in page
        assert 'rbx_breaker_state{instance="tiny-b/0"} 0.0' in page
        assert "algebra" not in page
        place.watch.ready[:] = False
        assert place.client.get("/readyz").status_code == 503
        turned = place.chat()
        assert turned.status_code == 503
        assert int(turned.headers["retry-after"]) >= 1
        assert turned.json()["error"]["code"] == "no_instance"
