"""The statements of the seeds and the differences from them, as the TOML files here list them."""

from __future__ import annotations

import enum
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent
SEEDS: Final[Mapping[str, str]] = {
    "kip-179": "KIP-179, Change ReassignPartitionsCommand to use AdminClient",
    "kip-179-early-draft": "KIP-179, early draft",
    "kip-183": "KIP-183, Change PreferredReplicaLeaderElectionCommand to use AdminClient",
    "kip-660-draft": "KIP-660, Pluggable ReplicaPlacer (draft, a diff of two revisions)",
    "kip-694": "KIP-694, Support Reducing Partitions for Topics (a diff of two revisions)",
}
"""The seeds by the names of their files, in the order in which they are listed."""


class Status(enum.StrEnum):
    """How a statement stands."""

    DONE = "done"
    DIFFERS = "differs"
    """Done in another way, or not done; the table of differences says why."""
    OUT_OF_SCOPE = "out of scope"
    """It is about something that is no part of kshunt, as Kafka's own source code."""
    IN_PROGRESS = "in progress"
    """Not done, or in part."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One normative sentence of a seed."""

    id: str
    """`seed:name`."""
    section: str
    says: str
    """A short quotation, or a paraphrase."""
    status: Status
    where: tuple[str, ...] = ()
    """What does it: `module:name`, or `module`."""
    difference: str = ""
    """The id of the difference, for one that differs."""
    why: str = ""
    """For one that is out of scope, or in progress: what is missing."""

    @property
    def seed(self) -> str:
        """The seed that says so."""
        return self.id.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where kshunt does something else than a seed says."""

    id: str
    seed: str
    section: str
    says: str
    does: str
    why: str
    names: tuple[str, ...]
    """Real things: `code module:name`, `route POST /v1/…`, `flag TOOL --name`, `error NAME`,
    `config name`."""


def statements() -> tuple[Statement, ...]:
    """Every statement, by seed, in the order of its sections.

    Raises:
        ValueError: a file has an entry with a field or a status that is unknown.
    """
    return tuple(_statement(seed, one) for seed in SEEDS for one in _entries(seed, "statement"))


def differences() -> tuple[Difference, ...]:
    """Every difference, in the order of the file."""
    return tuple(
        Difference(**{**one, "names": tuple(one["names"])})
        for one in _entries("differences", "difference")
    )


def _entries(file: str, name: str) -> list[dict[str, Any]]:
    document = tomllib.loads((FOLDER / f"{file}.toml").read_text("utf-8"))
    found: list[dict[str, Any]] = document[name]
    return found


def _statement(seed: str, entry: Mapping[str, Any]) -> Statement:
    given = dict(entry)
    where = given.pop("where", "")
    return Statement(
        id=f"{seed}:{given.pop('id')}",
        status=Status(given.pop("status", Status.DONE)),
        where=tuple(where.split()),
        **given,
    )
