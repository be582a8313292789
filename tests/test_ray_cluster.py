"""What is said where there is no Ray, or no cluster."""

from __future__ import annotations

import signal
import socket
import sys

import pytest

from rbx.errors import MissingExtraError, ServerError
from rbx.ray_cluster import connected


def test_without_ray_the_install_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install -e '.\[ray\]'"), connected("auto"):
        pass


@pytest.mark.parametrize("form", ["{}", "ray://{}", "auto"])
def test_an_address_where_nobody_listens_is_told_at_once(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{sock.getsockname()[1]}"
    monkeypatch.setenv("RAY_ADDRESS", address)
    before = signal.getsignal(signal.SIGTERM)
    with (
        pytest.raises(ServerError, match=r"can't be used: Connection refused"),
        connected(form.format(address)),
    ):
        pass
    assert signal.getsignal(signal.SIGTERM) == before
