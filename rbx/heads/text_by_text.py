"""An ONNX model run on many texts, each as its own batch at its exact length.

No padding is computed, so this is faster on a CPU than padded batches (a text of 60 pieces keeps two cores
busy by itself), and what comes of a text can't depend on its batch mates. Many texts run side by side on a
single-threaded session, which gives the same bits as the threaded one that a lone text gets.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TypeVar

import onnxruntime

MAX_THREADS = 8

Given = TypeVar("Given")
Made = TypeVar("Made")


_thread = threading.local()


def on_one_core() -> None:
    """From now on the calling thread runs models on itself alone: other threads run theirs beside it."""
    _thread.alone = True


class TextByText:
    """``model`` gives the file's path or its content; sessions are made at first use."""

    def __init__(self, model: Callable[[], str | bytes], threads: int | None = None) -> None:
        """``threads``: by default the cores at hand, up to ``MAX_THREADS``."""
        self._model = model
        self._threads = threads or min(MAX_THREADS, available_cores())

    def map(
        self, work: Callable[[onnxruntime.InferenceSession, Given], Made], texts: Sequence[Given]
    ) -> list[Made]:
        """``work`` of each text with a session, in their order."""
        if getattr(_thread, "alone", False):
            return [work(self.single, text) for text in texts]
        if len(texts) < 2 or self._threads == 1:
            return [work(self._threaded, text) for text in texts]
        session = self.single
        with ThreadPoolExecutor(self._threads) as workers:
            return list(workers.map(lambda text: work(session, text), texts))

    @cached_property
    def single(self) -> onnxruntime.InferenceSession:
        """A session that uses one core."""
        return self._threaded if self._threads == 1 else _session(self._model(), 1)

    @cached_property
    def _threaded(self) -> onnxruntime.InferenceSession:
        return _session(self._model(), self._threads)


def available_cores() -> int:
    """Cores that this process may use; not every system can say which, and then it is all of them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _session(model: str | bytes, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Threads that spin between operators gain a few per cent on an idle machine and lose half on a busy
    # one, and they would spin against the event loop of the gateway that they serve.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
