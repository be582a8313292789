"""An encoder that takes its time."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tests.heads.conftest import HashEncoder


class SlowEncoder(HashEncoder):
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        time.sleep(0.5)
        return super().encode(texts)
