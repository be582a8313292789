"""Requests drawn from the published description: no answer is a 5xx, and each is one that it describes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.serve.gateway.serving import serving

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is a development tool")
EXAMPLES = 40  # for each operation


def test_answers_are_what_the_description_says() -> None:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]
    asked: Counter[str] = Counter()
    statuses: Counter[int] = Counter()
    with serving() as place:
        schema = schemathesis.openapi.from_dict(place.client.get("/openapi.json").json())
        for found in schema.get_all_operations():
            operation = found.ok()

            @settings(
                max_examples=EXAMPLES,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy())
            def one(case: Any) -> None:
                answer = case.call(base_url=place.url)
                asked[case.operation.label] += 1
                statuses[answer.status_code] += 1
                case.validate_response(answer, checks=checks)

            one()
        place.settled()
    assert len(asked) >= 9
    assert sum(n for label, n in asked.items() if label.startswith(("POST", "PUT"))) >= 4 * EXAMPLES
    assert statuses[200] > 10
    assert statuses[400] > 10
    assert not any(status >= 500 for status in statuses)
