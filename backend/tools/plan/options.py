"""The command line of `kshunt plan`: a goal or an action, and flags that go with it.

What reads the value of a flag is imported where that flag is given.
"""

from __future__ import annotations

import enum
import re
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kshunt.backend.commandline.cluster_flags import (
    BACKEND_FLAGS,
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    JSON,
    backend_address,
    check_command_config,
)
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import UsageError
from kshunt.backend.commandline.table import Argument, Command, Flag
from kshunt.backend.commandline.values import between, path_of
from kshunt.backend.domain.planning.goals import (
    DISK_FRACTION,
    THROTTLES_MAX,
    TOLERANCE,
    Goal,
    Weighing,
    parse_size,
)
from kshunt.backend.errors import BadInput

if TYPE_CHECKING:
    from kshunt.backend.clock import Clock
    from kshunt.backend.domain.planning.requests import PlanRequest

T = TypeVar("T")
SEED_MAX: Final = 2**31 - 1

DESCRIPTION: Final = """\
Plan a reassignment for a goal, show the effect of a plan, rehearse it, and save it for
kafka-reassign-partitions. The command changes nothing in the cluster.
"""

EPILOG: Final = """\
A plan is Kafka's reassignment JSON. --out plan.json also writes plan.rollback.json, which reverses
it. Neither replaces an existing file.
"""
CODES: Final[Mapping[int, str]] = {
    ExitCode.DONE: "done; if there is nothing to change, no file is written",
    ExitCode.FAILED: "an error; nothing was written",
    ExitCode.UNFINISHED: "a plan was made, but it does not reach all of its goal: see its notes",
}


class PlanAction(enum.StrEnum):
    """What an operator can ask for in addition to goals."""

    SHOW = "show"
    REHEARSE = "rehearse"
    PICTURE = "picture"


_SUMMARIES: Final[Mapping[str, str]] = {
    Goal.DRAIN: "remove every replica from brokers",
    Goal.EXPAND: "give new brokers their share",
    Goal.REPLICATION_FACTOR: "give topics another number of replicas",
    Goal.REBALANCE: "even out the brokers",
    Goal.LEADERS: "even out the leaders; copies nothing",
    Goal.RACK_REPAIR: "spread replicas over racks again",
    Goal.REPLACE: "give all replicas of a broker to another one",
    Goal.MOVE_LOG_DIRS: "empty directories of a broker, or even them out",
    PlanAction.SHOW: "show the effect of any plan in a file",
    PlanAction.REHEARSE: "rehearse plans in a twin of the cluster",
    PlanAction.PICTURE: "save the cluster's facts, to plan and rehearse elsewhere",
}
"""Each goal and action."""
_FILES: Final[Mapping[str, tuple[Argument, ...]]] = {
    PlanAction.SHOW: (Argument("file", "FILE", "A plan."),),
    PlanAction.REHEARSE: (Argument("file", "FILE", "A plan.", many=True),),
}


# One value, and lists of them


def _listed(text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise BadInput(f"'{text}' has an empty part")
    return parts


def _each(parse: Callable[[str], T]) -> Callable[[str], list[T]]:
    return lambda text: [parse(part) for part in _listed(text)]


def _id(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 11):
        raise BadInput(f"'{text}' is not a broker id")
    return int(text)


def _factors(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in _listed(text):
        topics, _, number = word.rpartition("=")
        if not (topics and number.isascii() and number.isdigit() and 0 < int(number) <= 1_000):
            raise BadInput(f"'{word}' must look like orders*=3")
        if topics in found:
            raise BadInput(f"'{topics}' is given twice")
        found[topics] = int(number)
    return found


_PERCENT: Final = re.compile(r"\d{1,4}(?:\.\d{1,6})?")


def _percent(most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        number = text.strip().removesuffix("%").strip()
        if not _PERCENT.fullmatch(number) or float(number) > most:
            raise BadInput(f"'{text}' must be a percentage up to {most:g}")
        return float(number) / 100

    return read


def _throttle(text: str) -> int | None:
    from kshunt.backend.domain.throttles.configs import parse_rate

    return parse_rate(text)


def _a_rate(text: str) -> float | None:
    rate = _throttle(text)
    return None if rate is None else float(rate)


# Flags


def _of(*words: str) -> frozenset[str]:
    return frozenset(words)


_GOALS: Final = frozenset(map(str, Goal))
_MOVES: Final = _GOALS | _of(PlanAction.SHOW, PlanAction.REHEARSE)
_BY: Final = _of(Goal.EXPAND, Goal.REBALANCE)
_LEVELS: Final = _of(Goal.REBALANCE, Goal.LEADERS, Goal.MOVE_LOG_DIRS)

FLAGS: Final = (
    BOOTSTRAP_SERVER,
    *BACKEND_FLAGS,
    Flag("picture", "Plan from this file of `kshunt plan picture` instead of a cluster.", "FILE"),
    COMMAND_CONFIG,
    Flag(
        "broker",
        "The brokers of the goal, by id.",
        "ID[,...]",
        _of(Goal.DRAIN, Goal.EXPAND, Goal.REPLACE, Goal.MOVE_LOG_DIRS),
        required=True,
        value=_each(_id),
        default=(),
    ),
    Flag(
        "with",
        "The broker that gets the replicas.",
        "ID",
        _of(Goal.REPLACE),
        required=True,
        value=_each(_id),
        default=(),
    ),
    Flag(
        "factor",
        "Topics, or patterns, with the number of replicas that they should have; the first match "
        "counts.",
        "TOPICS=N[,...]",
        _of(Goal.REPLICATION_FACTOR),
        required=True,
        value=_factors,
    ),
    Flag(
        "empty",
        "Directories to empty.",
        "PATH[,...]",
        _of(Goal.MOVE_LOG_DIRS),
        value=_listed,
        default=(),
    ),
    Flag(
        "topic",
        "Topics that may change, or patterns (default all).",
        "TOPICS[,...]",
        _GOALS,
        value=_listed,
        default=("*",),
    ),
    Flag(
        "exclude",
        "Topics that must not change.",
        "TOPICS[,...]",
        _GOALS,
        value=_listed,
        default=(),
    ),
    Flag(
        "by",
        "The load to even out.",
        "LOAD",
        _BY,
        choices=tuple(Weighing),
        default=str(Weighing.BYTES),
    ),
    Flag(
        "tolerance",
        f"Allowed distance from the mean, in percent (default {100 * TOLERANCE:g}).",
        "%",
        _LEVELS,
        value=_percent(1_000),
        default=TOLERANCE,
    ),
    Flag("max-bytes", "Copy no more than this.", "SIZE", _of(Goal.REBALANCE), value=parse_size),
    Flag(
        "disk-limit",
        f"Fill no volume beyond this, in percent (default {100 * DISK_FRACTION:g}).",
        "%",
        _GOALS,
        value=_percent(100),
        default=DISK_FRACTION,
    ),
    Flag(
        "allow-fewer-racks",
        "Allow fewer racks for a partition if nothing else is possible.",
        actions=_of(Goal.DRAIN, Goal.REPLACE),
    ),
    Flag(
        "seed",
        "Another number breaks ties differently.",
        "N",
        _MOVES,
        value=between(0, SEED_MAX),
        default=0,
    ),
    Flag(
        "moves-per-broker",
        "Show the phases with at most this many moves at the same time.",
        "N",
        _GOALS,
        value=between(1, 10_000),
    ),
    Flag(
        "throttle",
        f"Rehearse it at these rates; none means no throttle. At most {THROTTLES_MAX}.",
        "RATE[,...]",
        _MOVES,
        value=_each(_throttle),
        default=(),
    ),
    Flag(
        "deadline",
        "Find the lowest throttle with which the plan is done by this time nine times in ten: "
        "06:00, 8h, 2026-11-23T06:00.",
        "TIME",
        _MOVES,
    ),
    Flag("quick", "Forecast when the plan is done, without a rehearsal.", actions=_MOVES),
    Flag(
        "network",
        "Capacity of each broker's network in each direction, if known.",
        "RATE",
        value=_a_rate,
    ),
    Flag(
        "disk-rate",
        "Rate at which each log directory reads and writes, together.",
        "RATE",
        value=_a_rate,
    ),
    Flag(
        "out",
        "Write the plan to this new file, and its rollback next to it.",
        "FILE",
        _GOALS | _of(PlanAction.PICTURE),
    ),
    JSON,
)


def _action(word: str) -> Command:
    flags = tuple(flag._replace(actions=None) for flag in FLAGS if flag.goes_with(word))
    return Command(
        ("plan", word),
        f"{_SUMMARIES[word].capitalize()}.",
        flags,
        _FILES.get(word, ()),
        summary=_SUMMARIES[word],
        epilog=EPILOG,
        codes=CODES,
    )


COMMAND: Final = Command(
    ("plan",),
    DESCRIPTION,
    FLAGS,
    actions=tuple(map(_action, _SUMMARIES)),
    epilog=EPILOG,
    codes=CODES,
)
"""Its actions are goals, and what can be done with plans."""


class PlanOptions(NamedTuple):
    """A command line that has passed every check which needs no cluster."""

    action: Goal | PlanAction
    bootstrap_servers: str = ""
    backend: str = ""
    """Address of a shared backend: unix:/path or http://host:port."""
    picture: Path | None = None
    """Absolute."""
    command_config: Path | None = None
    """Absolute."""
    request: PlanRequest | None = None
    """Of a goal."""
    files: tuple[str, ...] = ()
    throttles: tuple[int | None, ...] = ()
    """Bytes a second; None is without one."""
    deadline_ms: int | None = None
    """Milliseconds since the epoch."""
    quick: bool = False
    network_bytes_per_s: float | None = None
    disk_bytes_per_s: float | None = None
    out: Path | None = None
    """Absolute."""
    seed: int = 0
    json: bool = False

    @property
    def rehearses(self) -> bool:
        """Whether ends are asked for."""
        return bool(self.throttles) or self.deadline_ms is not None

    @property
    def needs_rates(self) -> bool:
        """Whether what is written to partitions matters."""
        by_load = self.request is not None and self.request.by is Weighing.LOAD
        return self.rehearses or by_load or self.action is PlanAction.PICTURE


def parse_options(words: Namespace, clock: Clock) -> PlanOptions:
    """What the command line means.

    Raises:
        UsageError: it cannot be meant.
    """
    given: Mapping[str, str] = words.given
    goal = words.action in _GOALS
    action = Goal(words.action) if goal else PlanAction(words.action)
    _check_source(action, given)
    throttles = tuple(getattr(words, "throttle", ()))
    ends = throttles or "deadline" in given
    if action is PlanAction.REHEARSE and not ends:
        raise UsageError("rehearse needs --throttle or --deadline")
    if "quick" in given and not ends:
        raise UsageError("--quick needs --throttle or --deadline")
    if len(throttles) > THROTTLES_MAX:
        raise UsageError(f"{len(throttles)} throttles; the maximum is {THROTTLES_MAX}")
    file = getattr(words, "file", [])
    return PlanOptions(
        action,
        given.get("bootstrap-server", ""),
        backend_address(given),
        path_of(given, "picture"),
        path_of(given, "command-config"),
        _request(action, words) if isinstance(action, Goal) else None,
        (file,) if isinstance(file, str) else tuple(file),
        throttles,
        _deadline_ms(given, clock),
        getattr(words, "quick", False),
        words.network,
        words.disk_rate,
        path_of(given, "out"),
        getattr(words, "seed", 0),
        words.json,
    )


def _check_source(action: Goal | PlanAction, given: Mapping[str, str]) -> None:
    sources = [name for name in ("bootstrap-server", "backend", "picture") if given.get(name)]
    if len(sources) != 1:
        raise UsageError("Give one of --bootstrap-server, --backend and --picture")
    check_command_config(given)
    if action is PlanAction.PICTURE and "out" not in given:
        raise UsageError("picture needs --out FILE")
    if action is PlanAction.PICTURE and sources == ["picture"]:
        raise UsageError("picture reads a cluster: give --bootstrap-server or --backend")


def _deadline_ms(given: Mapping[str, str], clock: Clock) -> int | None:
    if "deadline" not in given:
        return None
    from kshunt.backend.domain.text.deadlines import deadline_ms

    try:
        return deadline_ms(given["deadline"], clock.now_ms(), None)
    except BadInput as error:
        raise UsageError(f"--deadline: {error}") from None


def _request(goal: Goal, words: Namespace) -> PlanRequest:
    from kshunt.backend.domain.planning.requests import PlanRequest
    from kshunt.backend.domain.reassignment.move_caps import MoveCaps

    def said(name: str, otherwise: T) -> T:
        return getattr(words, name, otherwise)

    cap: int | None = words.moves_per_broker
    try:
        return PlanRequest(
            goal,
            (*said("broker", ()), *said("with", ())),
            tuple(words.topic),
            tuple(words.exclude),
            said("factor", {}) or {},
            Weighing(said("by", Weighing.BYTES)),
            said("tolerance", TOLERANCE),
            said("max_bytes", None),
            tuple(said("empty", ())),
            words.disk_limit,
            not said("allow_fewer_racks", False),
            words.seed,
            None if cap is None else MoveCaps(cap, SEED_MAX),
        )
    except BadInput as error:
        raise UsageError(error.message) from None
