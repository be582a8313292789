"""Settings of vLLM that the engine does not model are refused with a reason, not as typing errors."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from rbx.config.pool import EngineLimits
from rbx.config.unmodelled import UNMODELLED


@pytest.mark.parametrize("key", sorted(UNMODELLED))
def test_a_setting_outside_the_model_is_refused_by_name_and_reason(key: str) -> None:
    with pytest.raises(ValidationError) as caught:
        EngineLimits.model_validate({"kv_blocks": 1000, key: 1})
    assert f"{key}: {UNMODELLED[key]}" in str(caught.value)


def test_all_of_them_are_named_at_once() -> None:
    with pytest.raises(ValidationError, match=r"enable_prefix_caching: .*; watermark: "):
        EngineLimits.model_validate({"kv_blocks": 1000, "watermark": 0.1, "enable_prefix_caching": False})


def test_nothing_that_the_engine_models_is_refused() -> None:
    assert not UNMODELLED.keys() & EngineLimits.model_fields.keys()
