"""How a file or a command names a Ray cluster."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from rbx.config.base import Text

_FORM = re.compile(r"auto|local|(ray://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")


def checked_ray_address(address: str) -> str:
    """``address`` itself; raises ``ValueError`` for one that has no meaning to ``rbx.ray_cluster``."""
    if not _FORM.fullmatch(address):
        raise ValueError(f"{address!r} is neither auto, local, HOST:PORT nor ray://HOST:PORT")
    return address


RayAddress = Annotated[Text, AfterValidator(checked_ray_address)]
