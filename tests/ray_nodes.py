"""A Ray cluster of several nodes on this machine, in processes of its own, for tests.

Run as a program it holds the cluster: it takes ``add NAME`` and ``remove NAME`` on standard input, answers
each with the nodes there are, and ends with its input.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
MIB = 1 << 20


class RayNodes:
    """``address`` of the head, ``client_address`` for drivers outside; ``raylets``: each node's process."""

    def __init__(self, process: subprocess.Popen[str], variables: Mapping[str, str]) -> None:
        self._process = process
        self.variables = dict(variables)
        self.address = self.client_address = ""
        self.raylets: dict[str, int] = {}
        self._read()

    def add(self, name: str) -> None:
        self._tell(f"add {name}")

    def remove(self, name: str) -> None:
        """As when a machine is switched off."""
        self._tell(f"remove {name}")

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)
        self._read()

    def _read(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the cluster did not start"
        found = json.loads(line)
        self.address, self.raylets = found["address"], found["raylets"]
        self.client_address = f"ray://127.0.0.1:{found['client_port']}"


@contextmanager
def ray_nodes(nodes: Mapping[str, Mapping[str, Any]], log: Path) -> Iterator[RayNodes]:
    """A cluster on the loopback interface; its head runs nothing, its ``nodes`` have these resources."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install -e '.[ray]'")
    variables = {
        # Ray's own switch for a cluster that listens on the loopback interface alone.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.ray_nodes", json.dumps(nodes)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **variables},
            start_new_session=True,
        )
    try:
        yield RayNodes(process, variables)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
        process.kill()
        process.wait()


def main(resources: Mapping[str, Mapping[str, Any]]) -> None:
    from ray.cluster_utils import Cluster

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        client_port = sock.getsockname()[1]
    common = {"node_ip_address": "127.0.0.1", "object_store_memory": 80 * MIB}
    head = {**common, "num_cpus": 0, "num_gpus": 0, "include_dashboard": False}
    head["ray_client_server_port"] = client_port
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes: dict[str, Any] = {}

    def add(name: str) -> None:
        nodes[name] = cluster.add_node(**common, **resources[name])

    def say() -> None:
        pids = {name: node.all_processes["raylet"][0].process.pid for name, node in nodes.items()}
        told = {"address": cluster.address, "client_port": client_port, "raylets": pids}
        print(json.dumps(told), flush=True)

    for name in resources:
        add(name)
    say()
    for line in sys.stdin:
        verb, name = line.split()
        if verb == "add":
            add(name)
        else:
            cluster.remove_node(nodes.pop(name), allow_graceful=False)
        say()
    cluster.shutdown()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
