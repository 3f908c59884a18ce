"""What a page names and a test's machine lacks: certificates, an identity provider, another host.

Constraints
    Each is made when a command names it for the first time, and lasts as long as the page.
"""

from __future__ import annotations

import grp
import json
import os
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from kshunt.backend.clock import SystemClock
from kshunt.backend.domain.pipeline.result_columns import RATES, RESULTS
from kshunt.backend.domain.pipeline.sample_columns import DAY_MS
from kshunt.backend.notify.dead_letters import DeadLetters, Letter
from tests.support.access.certificates import Authority
from tests.support.notify.messages import message, target
from tests.support.notify.receiver import Receiver
from tests.support.pipeline import weeks
from tests.support.pipeline.light import made
from tests.support.pipeline.recorded import write
from tests.support.pipeline.reported import OPERATION, moved, write_results
from tests.support.ports import free_ports

SERVED: Final = {
    "unix:/run/kshunt/prod.sock": (
        "kshunt serve --bootstrap-server broker1:9092 --socket /run/kshunt/prod.sock"
    ),
    "/run/kshunt.sock host": (
        "kshunt serve --bootstrap-server broker1:9092 --socket /run/kshunt.sock"
    ),
    "kshunt.example.org:8095 bastion": (
        "kshunt serve --bootstrap-server broker1:9092 --listen 0.0.0.0:8095 "
        "--tls-certificate tunnel.pem --tls-key tunnel.key"
    ),
}
"""Names in commands that need a backend which their page does not start, and that backend."""


class StandIns:
    """Those of one page's folder."""

    def __init__(self, folder: Path, receiver: Receiver) -> None:
        self._folder, self._receiver = folder, receiver
        self._port, self._tunnel_port = free_ports(2)
        """Where a backend for other hosts listens, and where a tunnel to it begins."""
        makers: Mapping[str, Callable[[], str]] = {
            "--listen 0.0.0.0:8095": lambda: f"--listen 127.0.0.1:{self._port}",
            "--tls-certificate kshunt.pem": self._certificate,
            "https://kshunt.example.org:8095": self._server,
            "https://id.example.org/keys": self._provider,
            "--socket-group kafka-oncall": self._group,
            "https://hooks.example.org/kshunt": lambda: receiver.url,
            "~/.local/state/kshunt/webhooks/dead-letters.jsonl": self._letters,
            "3f2a1b9c --samples /data/kshunt/prod": self._recording,
            "--week last --samples /data/kshunt/prod": lambda: f"--week last {self._weeks}",
            "--week 2026-W47 --samples /data/kshunt/prod": lambda: (
                f"--week {weeks.WEEK} {self._weeks}"
            ),
            "/tmp/kshunt.sock": lambda: str(folder / "tmp" / "kshunt.sock"),
            "--tls-certificate tunnel.pem": self._certificate_of_the_host,
            "8095:kshunt.example.org:8095": lambda: f"{self._tunnel_port}:127.0.0.1:{self._port}",
            "https://localhost:8095": lambda: f"https://localhost:{self._tunnel_port}",
            "--tls-server-name kshunt.example.org": lambda: (
                f"--tls-server-name kshunt.example.org --ca-file {folder / 'ca.pem'}"
            ),
        }
        self._made = {name: cache(make) for name, make in makers.items()}

    def served_for(self, command: str) -> list[str]:
        """Commands of backends that another host or another page would have started."""
        return [served for name, served in SERVED.items() if name in command]

    def words(self, command: str) -> str:
        """A command in which the test has replaced each name."""
        for name, make in self._made.items():
            if name in command:
                command = command.replace(name, make())
        return command

    def _certificate(self) -> str:
        authority = Authority()
        authority.file(self._folder)
        authority.issue("127.0.0.1").write(self._folder / "work", "kshunt")
        return "--tls-certificate kshunt.pem"

    def _certificate_of_the_host(self) -> str:
        authority = Authority()
        authority.file(self._folder)
        authority.issue("kshunt.example.org").write(self._folder / "work", "tunnel")
        return "--tls-certificate tunnel.pem"

    def _server(self) -> str:
        return f"https://127.0.0.1:{self._port} --ca-file {self._folder / 'ca.pem'}"

    def _provider(self) -> str:
        key = ec.generate_private_key(ec.SECP256R1()).public_key()
        entry = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key))
        path = self._folder / "provider.json"
        path.write_text(json.dumps({"keys": [{**entry, "kid": "one", "alg": "ES256"}]}))
        path.chmod(0o600)
        return str(path)

    def _group(self) -> str:
        return f"--socket-group {grp.getgrgid(os.getgid()).gr_name}"

    def _letters(self) -> str:
        path = self._folder / ".local" / "state" / "kshunt" / "webhooks" / "dead-letters.jsonl"
        path.parent.mkdir(mode=0o700, parents=True)
        to = target(self._receiver.url)
        DeadLetters(path).add([Letter(to.id, to.host, 1_700_000_000_000, 12, "503", message(1))])
        return str(path)

    def _recording(self) -> str:
        folder = self._folder / "recorded"
        write(folder, moved())
        made(folder, folder / "results")
        return f"{OPERATION} --samples {folder}"

    @cached_property
    def _weeks(self) -> str:
        """Results of the week that the page names, and a row of the last one."""
        samples = self._folder / "weeks"
        results = samples / RESULTS
        for table, rows in weeks.tables().items():
            write_results(results, table, rows)
        a_week_ago = [weeks.rate(SystemClock().now_ms() - 7 * DAY_MS)]
        write_results(results, RATES, a_week_ago, batch=1)
        return f"--samples {samples}"
