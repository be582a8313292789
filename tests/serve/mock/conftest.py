from __future__ import annotations

from collections.abc import Iterator

import pytest

from rbx.serve.mock.serving import MockTier, serve_mock
from tests.serve.mock.pools import small_pool


@pytest.fixture(scope="module")
def served() -> Iterator[MockTier]:
    """The small pool at ten times real time; a test that sets faults clears them."""
    with serve_mock(small_pool(), time_scale=10.0, seed=3) as tier:
        yield tier


@pytest.fixture
def mock(served: MockTier) -> Iterator[MockTier]:
    served.set_faults()
    yield served
    served.set_faults()
