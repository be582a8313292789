"""What the publishing scheduler shows is what rbx's engine says of the same scene at the same moment."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed here; `make test-vllm` installs its CPU build")

from vllm.config import SchedulerConfig
from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.step_trace import STEP_TRACE
from rbx.errors import EngineError
from rbx.serve.plugin.server_limits import refuse_unmodelled_server
from rbx.serve.state.published import PublishedState, live_states
from tests.vllm.publications import SCHEDULER, PublishingCore, first_wrong, publish
from tests.vllm.truth import Scene, scene
from tests.vllm.virtual_core import configuration_of

pytestmark = pytest.mark.vllm

SCENES = int(os.environ.get("RBX_PUBLISHED_SCENES", "40"))


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RBX_STATE_DIR", str(tmp_path))


def describe(core: PublishingCore, seen: Counter[str]) -> None:
    """Count what the publications contain, so that none of it can silently go missing."""
    for publication in core.publications:
        snapshot = publication.snapshot
        waiting = snapshot.requests[snapshot.running :]
        seen["publications"] += 1
        seen["batch ahead"] += snapshot.ahead
        seen["between steps"] += snapshot.running > 0 and not snapshot.stepping
        seen["prompt in progress"] += int(snapshot.requests[:, snap.PREFILLING].any())
        seen["backlog"] += len(waiting) > 0
        seen["preempted"] += int((snapshot.requests[:, snap.PREEMPTIONS] > 0).any())
        seen["preempted, token coming"] += int(waiting[:, snap.YIELDS].any())
        seen["idle"] += len(snapshot.requests) == 0


@pytest.mark.parametrize("asynchronous", [False, True], ids=["synchronous", "asynchronous"])
def test_every_publication_is_the_state_of_the_engine(asynchronous: bool) -> None:
    seen: Counter[str] = Counter()
    for seed in range(1, 1 + SCENES):
        case = scene(seed, asynchronous)
        core = publish(case)
        assert core.scheduler.publisher.errors == 0
        wrong = first_wrong(case, core)
        assert wrong is None, f"scene {seed}: {wrong}"
        describe(core, seen)
    only_asynchronous = {"batch ahead", "preempted, token coming"}
    scarce = {name for name, count in seen.items() if count < SCENES // 10}
    assert scarce == (set() if asynchronous else only_asynchronous), seen
    assert seen["publications"] > 20 * SCENES


def test_the_ring_has_every_step_with_its_make_up_and_its_times() -> None:
    for seed in range(1, 21):
        case = scene(seed, asynchronous=seed % 2 == 0)
        core = publish(case)
        steps, lost = core.ring.take()
        assert lost == 0
        expected = [(step.start_s, step.end_s, *step.composition) for step in core.executor.steps]
        columns = [steps[name].tolist() for name in STEP_TRACE.names if name != "prefill_requests"]
        assert list(zip(*columns, strict=True)) == expected
        assert len(expected) > 0


def test_the_scheduler_is_the_one_that_the_configuration_asks_for() -> None:
    for asynchronous in (False, True):
        core = publish(scene(3, asynchronous))
        assert isinstance(core.scheduler, AsyncScheduler) == asynchronous


@pytest.mark.parametrize(
    ("holder", "name", "value"),
    [
        ("cache_config", "enable_prefix_caching", True),
        ("scheduler_config", "policy", "priority"),
        ("scheduler_config", "watermark", 0.1),
        ("parallel_config", "pipeline_parallel_size", 2),
        ("", "speculative_config", object()),
        ("", "lora_config", object()),
    ],
)
def test_a_server_outside_the_model_is_refused_by_name(
    holder: str, name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = scene(3, asynchronous=True)
    config = configuration_of(case.tier)
    monkeypatch.setattr(getattr(config, holder) if holder else config, name, value)
    with pytest.raises(ValueError, match=name.replace("lora_config", "enable_lora")):
        refuse_unmodelled_server(config, publish(case).scheduler.kv_cache_config)


def test_an_error_while_publishing_ends_the_publishing_and_not_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    case = _busy_scene()
    core = PublishingCore.of(case)
    publisher = core.scheduler.publisher

    def broken(*_: object) -> None:
        raise RuntimeError("no room")

    publisher.file.publish = broken
    core.run()  # asserts that every request was served
    assert publisher.errors == 1
    assert sum("publishing the scheduler's state has failed" in line for line in caplog.messages) <= 1
    with pytest.raises(EngineError, match="RuntimeError: no room"):
        core.state.read(1e12)
    publisher.file.close()


def test_the_file_goes_with_the_server(tmp_path: Path) -> None:
    core = PublishingCore.of(_busy_scene())
    assert live_states(tmp_path) == [core.scheduler.publisher.file.path]
    core.run()
    core.scheduler.publisher.file.close()
    assert live_states(tmp_path) == []
    with pytest.raises(EngineError, match="has ended"):
        core.state.read(1e12)
    with pytest.raises(EngineError, match="no published state"):
        PublishedState(
            core.scheduler.publisher.file.path, InstanceProfile.of(_busy_scene().tier).coefficients
        )


def test_the_name_of_the_scheduler_is_what_vllm_takes() -> None:
    from rbx.serve.plugin.scheduler import PublishingScheduler

    config = SchedulerConfig.default_factory(scheduler_cls=SCHEDULER)
    assert config.get_scheduler_cls() is PublishingScheduler


def _busy_scene() -> Scene:
    return scene(3, asynchronous=True)
