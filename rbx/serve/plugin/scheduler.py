"""vLLM's own schedulers, publishing: ``--scheduler-cls rbx.serve.plugin.scheduler.PublishingScheduler``.

Decisions are vLLM's, unchanged. vLLM warns at start that the interface of schedulers is not public;
``docs/observe.md`` names the version that this is tested with.
"""

from __future__ import annotations

import logging
from typing import Any

import vllm
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from rbx.serve.plugin.publisher import Publisher
from rbx.serve.plugin.server_limits import refuse_unmodelled_server, server_fields
from rbx.serve.plugin.state_file import StateFile, state_directory

_log = logging.getLogger("vllm.rbx")


def _publishing(base: type[Any]) -> type[Any]:
    """A subclass of one of vLLM's schedulers that publishes after each decision."""

    # Which of vLLM's schedulers is the base is known only once its configuration is.
    class Publishing(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.publisher = _publisher(self)

        def schedule(self, *args: Any, **kwargs: Any) -> Any:
            asked_s = self.publisher.clock()
            output = super().schedule(*args, **kwargs)
            self.publisher.formed(output, asked_s)
            return output

        def update_from_output(self, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
            outputs = super().update_from_output(scheduler_output, *args, **kwargs)
            self.publisher.ended(scheduler_output)
            return outputs

        def shutdown(self) -> None:
            self.publisher.file.close()
            super().shutdown()

    Publishing.__name__ = Publishing.__qualname__ = f"Publishing{base.__name__}"
    return Publishing


_SYNCHRONOUS, _ASYNCHRONOUS = _publishing(Scheduler), _publishing(AsyncScheduler)


class PublishingScheduler:
    """Stands for the one of vLLM's two schedulers that the server's configuration asks for.

    Batches formed ahead need a subclass of ``AsyncScheduler``, the others one of ``Scheduler``; which it
    is to be is known only when vLLM has checked its configuration.
    """

    def __new__(cls, vllm_config: Any, *args: Any, **kwargs: Any) -> Any:
        """An instance of the subclass; raises ``ValueError`` for settings that rbx does not model."""
        asynchronous = vllm_config.scheduler_config.async_scheduling
        chosen = _ASYNCHRONOUS if asynchronous else _SYNCHRONOUS
        return chosen(vllm_config, *args, **kwargs)


def _publisher(scheduler: Any) -> Publisher:
    config = scheduler.vllm_config
    refuse_unmodelled_server(config, scheduler.kv_cache_config)
    fields = server_fields(config, vllm.__version__, scheduler.block_size)
    rank = config.parallel_config.data_parallel_index
    file = StateFile(state_directory(), fields, rank=rank)
    _log.info("rbx: the scheduler's state is published in %s", file.path)
    return Publisher(scheduler, file)
