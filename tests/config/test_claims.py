"""Claims files: what is taken, and what is refused with the key named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rbx.config.base import parse
from rbx.config.claims import ClaimsFile, DifferenceClaim, load_claims
from rbx.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
POINT = {"sweep": "s", "policy": "p", "rate_per_s": 6}
VALUE = {"kind": "value", "metric": "quality", "of": POINT, "published": 1.0}


def parsed(claim: dict[str, Any], **keys: Any) -> ClaimsFile:
    base = {"id": "c", "where": "Table 1", "says": "so", **claim}
    return parse(
        ClaimsFile,
        {"name": "n", "source": "s", "sweeps": {"s": "f"}, "claims": [base], **keys},
        where="f.yaml",
    )


def test_the_example_of_the_documents_is_a_claims_file(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    example = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert example is not None
    path = tmp_path / "claims.yaml"
    path.write_text(example[1])
    found = load_claims(path).value
    assert [claim.id for claim in found.claims] == [
        claim["id"] for claim in yaml.safe_load(example[1])["claims"]
    ]
    assert found.claims[2].is_calibrated


def test_sentences_may_break_over_lines() -> None:
    assert parsed({**VALUE, "says": "one\n  two \n"}).claims[0].says == "one two"


def test_a_published_interval_tells_significance() -> None:
    difference = {**VALUE, "kind": "difference", "minus": POINT}
    for interval, significant in (([0.5, 1.5], True), ([-0.5, 1.5], False), (None, None)):
        found = parsed({**difference, "published_interval": interval}).claims[0]
        assert isinstance(found, DifferenceClaim)
        assert found.published_significant is significant


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "guess"}, "kind 'guess' is none of value, difference"),
        ({"metric": None}, "c: metric is missing"),
        ({"published": "1.0"}, "claims.0.published"),
        ({"published": float("nan")}, "claims.0.published"),
        ({"published": 0.0}, "give absolute"),
        ({"published_interval": [2.0, 3.0]}, "holds published"),
        ({"published_interval": [1.5, 0.5]}, "holds published"),
        ({"tolerance": 0}, "claims.0.tolerance"),
        ({"role": "calibrated"}, "needs why"),
        ({"why": "fitted"}, "needs why"),
        ({"of": {**POINT, "sweep": "other"}}, "c: no sweep 'other'"),
        ({"of": {**POINT, "load": 0.5}}, "either rate_per_s or load"),
        ({"of": {**POINT, "rate_per_s": 0}}, "claims.0.of.rate_per_s"),
        ({"of": {**POINT, "rat_per_s": 6}}, "claims.0.of.rat_per_s"),
        ({"of": {**POINT, "seeds": []}}, "claims.0.of.seeds"),
        ({"of": "p"}, "must be a mapping"),
        ({"of": {"best": {"sweep": "s", "policies": []}}}, "claims.0.of.best.policies"),
        ({"of": {"best": {"sweep": "s", "policies": "p", "want": "most"}}}, "claims.0.of.best.want"),
        ({"minus": POINT}, "claims.0.minus"),
        ({"says": ""}, "claims.0.says"),
        ({"says": "a\x1b[31mb"}, "claims.0.says"),
    ],
)
def test_what_can_not_be_meant_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        parsed({**VALUE, **change})


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ({"kind": "bound", "metric": "quality", "of": POINT}, "give at_least, at_most or both"),
        ({"kind": "bound", "metric": "quality", "of": POINT, "at_least": 2, "at_most": 1}, "lies above"),
        (
            {"kind": "bound", "metric": "quality", "of": POINT, "minus": POINT, "over": POINT, "at_most": 1},
            "either minus or over",
        ),
        ({"kind": "ratio", "metric": "quality", "of": POINT, "over": POINT, "published": 0.0}, "published"),
        ({"kind": "sign", "metric": "quality", "of": POINT, "minus": POINT, "published": "="}, "published"),
        ({"kind": "order", "metric": "quality", "points": [POINT]}, "points"),
        (
            {"kind": "order", "metric": "quality", "points": [POINT, POINT], "published": [1.0]},
            "one for each of the 2 points",
        ),
        (
            {
                "kind": "difference",
                "metric": "quality",
                "of": POINT,
                "minus": POINT,
                "published": 1.0,
                "published_interval": [0.5, 1.5],
                "significant": True,
            },
            "leave significant out",
        ),
    ],
)
def test_each_kind_is_checked_by_its_own_rules(claim: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        parsed(claim)


def test_an_id_is_given_once() -> None:
    claim = {"id": "c", "where": "w", "says": "s", **VALUE}
    with pytest.raises(ConfigError, match="the id c is given twice"):
        parse(
            ClaimsFile,
            {"name": "n", "source": "s", "sweeps": {"s": "f"}, "claims": [claim, claim]},
            where="f",
        )


def test_numbers_of_files_need_no_metric() -> None:
    figure = {"file": "a.json", "key": "b.0.c"}
    assert parsed({"kind": "value", "of": figure, "published": 1.0}).claims[0].metric is None
