"""Backends of this user that run on this machine, and the clusters that they serve."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from kshunt.backend.addresses import zookeeper_address
from kshunt.backend.errors import KshuntError
from kshunt.backend.local_sockets import answers, socket_path

ASKED_TOGETHER: Final = 8


def running(folder: Path, timeout_s: float) -> dict[Path, str]:
    """The sockets in a folder that answer, each with the cluster's id; empty: it does not say.

    The demo of this process is left out: it ends with the dashboard that shows it.
    """
    own = f"demo-{os.getpid()}.sock"
    sockets = [path for path in sorted(folder.glob("*.sock")) if path.name != own]
    with ThreadPoolExecutor(ASKED_TOGETHER) as pool:
        found = [
            path for path, there in zip(sockets, pool.map(answers, sockets), strict=True) if there
        ]
        said = pool.map(lambda path: _cluster_id(path, timeout_s), found)
        return dict(zip(found, said, strict=True))


def _cluster_id(path: Path, timeout_s: float) -> str:
    from kshunt.backend.api.client.backend_client import BackendClient

    try:
        with BackendClient(f"unix:{path}", timeout_s=timeout_s) as client:
            return client.cluster().cluster_id
    except KshuntError:
        return ""


def private_sockets(given: Mapping[str, str]) -> set[Path]:
    """Where a backend listens that these flags name or start."""
    if address := given.get("backend", ""):
        return {Path(address.removeprefix("unix:"))} if address.startswith("unix:") else set()
    try:
        servers = given.get("bootstrap-server", "")
        if connect := given.get("zookeeper", ""):
            servers = zookeeper_address(connect)
        config = given.get("zk-tls-config-file") or given.get("command-config")
        return {socket_path(servers, Path(config) if config else None)} if servers else set()
    except KshuntError:
        return set()
