from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rbx.config.classifier_service import ClassifierService
from rbx.config.routed_policy import RoutedPolicy
from rbx.errors import ConfigError
from rbx.heads.bundle_meta import ModelStatistics
from rbx.heads.routers.head import AskedPrompts
from rbx.serve.classifier.client import Classified
from rbx.serve.classifier.router import classifier_router, learnt_table
from tests.serve.classifier.service import running

MODELS = ("small", "large")
STATISTICS = (ModelStatistics("small", 9, 0.4, 9, 10.0), ModelStatistics("large", 9, 0.7, 9, 10.0))


def policy(threshold: float | None = None, **service: object) -> RoutedPolicy:
    described = ClassifierService.model_validate({"url": "http://127.0.0.1:9", **service})
    return RoutedPolicy(router="vllm-sr", dispatch="random", service=described, threshold=threshold)


def test_a_category_goes_to_its_model_and_others_to_the_default() -> None:
    router = classifier_router(policy(models={"math": "small", "law": "large"}), MODELS, STATISTICS)
    answers = [Classified("math", 0.1), Classified("law", 1.0), Classified("cooking", 1.0)]
    assert router.chosen(answers).argmax(axis=1).tolist() == [0, 1, 1]
    assert router.chosen(answers).sum(axis=1).tolist() == [1, 1, 1]
    assert router.sent_to_default(answers) == {"cooking": 1}
    unsure = replace(router, threshold=0.6, default="small")
    assert unsure.chosen(answers).argmax(axis=1).tolist() == [0, 1, 0]
    assert unsure.sent_to_default(answers) == {"cooking": 1, "math": 1}


def test_the_default_is_the_one_named_else_the_best_single_model() -> None:
    assert classifier_router(policy(models={"math": "small"}), MODELS, STATISTICS).default == "large"
    named = policy(models={"math": "large"}, default_model="small")
    assert classifier_router(named, MODELS, STATISTICS).default == "small"


def test_without_a_map_and_without_labels_there_is_no_router() -> None:
    with pytest.raises(ConfigError, match="which model answers each category"):
        classifier_router(policy(), MODELS, STATISTICS)
    learnt = classifier_router(policy(), MODELS, STATISTICS, {"math": "small"})
    assert dict(learnt.table) == {"math": "small"}


def test_the_learnt_map_is_the_best_mean_label_and_missing_ones_do_not_count() -> None:
    rng = np.random.default_rng(0)
    names = ["math", "law", "cooking"]
    classified = [Classified(names[k % 3], 0.9) for k in range(90)]
    score = rng.random((90, 2))
    score[rng.random((90, 2)) < 0.3] = np.nan
    expected = {}
    for k, name in enumerate(names):
        means = [np.mean([s for s in score[k::3, m] if s == s]) for m in range(2)]
        expected[name] = MODELS[int(means[1] > means[0])]
    assert learnt_table(classified, score, MODELS) == expected


def test_it_asks_the_service_for_the_texts() -> None:
    with running(lambda text: ("math" if "triangle" in text else "law", 0.9)) as service:
        router = classifier_router(
            policy(url=service.url, models={"math": "small", "law": "large"}), MODELS, STATISTICS
        )
        texts = ["a triangle", "a contract", "two triangles"]
        found = router.score(AskedPrompts(texts, np.zeros((3, 4), dtype=np.float32)))
    assert found.argmax(axis=1).tolist() == [0, 1, 0]
