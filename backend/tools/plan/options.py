"""The command line of `kshunt plan`: a goal or an action, and flags that go with it."""

from __future__ import annotations

import argparse
import enum
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from kshunt.backend.clock import Clock
from kshunt.backend.domain.planning.requests import (
    DISK_FRACTION,
    THROTTLES_MAX,
    TOLERANCE,
    Goal,
    PlanRequest,
    Weighing,
    parse_size,
)
from kshunt.backend.domain.reassignment.move_caps import MoveCaps
from kshunt.backend.domain.text.deadlines import deadline_ms
from kshunt.backend.domain.throttles.configs import parse_rate
from kshunt.backend.errors import BadInput
from kshunt.backend.tools.shared.flags import (
    ABOUT,
    JSON,
    Flag,
    UsageError,
    backend_address,
    parser_of,
    path_of,
    whole,
)

PROG: Final = "kshunt plan"
T = TypeVar("T")

DESCRIPTION: Final = """\
Plan a reassignment for a goal, show the effect of a plan, rehearse it, and save it for
kafka-reassign-partitions. The command changes nothing in the cluster.

goals:
  drain               remove every replica from brokers                 --broker
  expand              give new brokers their share                      --broker [--by]
  replication-factor  another number of replicas            --factor TOPICS=N[,...]
  rebalance           even out the brokers                 [--by] [--tolerance]
  leaders             even out the leaders; copies nothing              [--tolerance]
  rack-repair         spread replicas over racks again
  replace             give all replicas of a broker to another one      --broker --with
  move-log-dirs       empty directories of a broker, or even them out   --broker [--empty]

actions:
  show FILE           show the effect of any plan in a file
  rehearse FILE...    rehearse plans in a twin of the cluster   --throttle, --deadline [--quick]
  picture             save the cluster's facts, to plan and rehearse elsewhere        --out
"""

EPILOG: Final = """\
A plan is Kafka's reassignment JSON. --out plan.json also writes plan.rollback.json, which reverses
it. Neither replaces an existing file.

exit codes:
  0   done; if there is nothing to change, no file is written
  1   an error; nothing was written
  2   a plan was made, but it does not reach all of its goal: see its notes
  64  wrong usage
"""


class PlanAction(enum.StrEnum):
    """What is asked besides goals."""

    SHOW = "show"
    REHEARSE = "rehearse"
    PICTURE = "picture"


_WORDS: Final = (*Goal, *PlanAction)
_TAKES_FILES: Final = frozenset({PlanAction.SHOW, PlanAction.REHEARSE})


def _of(*words: str) -> frozenset[str]:
    return frozenset(words)


_GOALS: Final = frozenset(map(str, Goal))
_MOVES: Final = _GOALS | _of(PlanAction.SHOW, PlanAction.REHEARSE)
_BY: Final = _of(Goal.EXPAND, Goal.REBALANCE)
_LEVELS: Final = _of(Goal.REBALANCE, Goal.LEADERS, Goal.MOVE_LOG_DIRS)

FLAGS: Final = (
    Flag("bootstrap-server", "Brokers to connect to first.", "HOST:PORT[,...]"),
    Flag("backend", "Use this shared kshunt backend instead.", "unix:PATH|http://HOST:PORT"),
    Flag("picture", "Plan from this file of `kshunt plan picture` instead of a cluster.", "FILE"),
    Flag("command-config", "Java properties file of an admin client.", "FILE"),
    Flag(
        "broker",
        "The brokers of the goal, by id.",
        "ID[,...]",
        _of(Goal.DRAIN, Goal.EXPAND, Goal.REPLACE, Goal.MOVE_LOG_DIRS),
        required=True,
    ),
    Flag("with", "The broker that gets the replicas.", "ID", _of(Goal.REPLACE), required=True),
    Flag(
        "factor",
        "Topics, or patterns, with the number of replicas that they should have; the first match "
        "counts.",
        "TOPICS=N[,...]",
        _of(Goal.REPLICATION_FACTOR),
        required=True,
    ),
    Flag("empty", "Directories to empty.", "PATH[,...]", _of(Goal.MOVE_LOG_DIRS)),
    Flag("topic", "Topics that may change, or patterns (default all).", "TOPICS[,...]", _GOALS),
    Flag("exclude", "Topics that must not change.", "TOPICS[,...]", _GOALS),
    Flag("by", "The load to even out (default bytes).", "|".join(Weighing), _BY),
    Flag("tolerance", "Allowed distance from the mean, in percent (default 10).", "%", _LEVELS),
    Flag("max-bytes", "Copy no more than this.", "SIZE", _of(Goal.REBALANCE)),
    Flag("disk-limit", "Fill no volume beyond this, in percent (default 85).", "%", _GOALS),
    Flag(
        "allow-fewer-racks",
        "Allow fewer racks for a partition if nothing else is possible.",
        actions=_of(Goal.DRAIN, Goal.REPLACE),
    ),
    Flag("seed", "Another number breaks ties differently (default 0).", "N", _MOVES),
    Flag(
        "moves-per-broker",
        "Show the phases with at most this many moves at the same time.",
        "N",
        _GOALS,
    ),
    Flag(
        "throttle",
        f"Rehearse it at these rates; none means no throttle. At most {THROTTLES_MAX}.",
        "RATE[,...]",
        _MOVES,
    ),
    Flag(
        "deadline",
        "Find the lowest throttle with which the plan is done by this time nine times in ten: "
        "06:00, 8h, 2026-11-23T06:00.",
        "TIME",
        _MOVES,
    ),
    Flag("quick", "Forecast when the plan is done, without a rehearsal.", actions=_MOVES),
    Flag("network", "Capacity of each broker's network in each direction, if known.", "RATE"),
    Flag("disk-rate", "Rate at which each log directory reads and writes, together.", "RATE"),
    Flag(
        "out",
        "Write the plan to this new file, and its rollback next to it.",
        "FILE",
        _GOALS | _of(PlanAction.PICTURE),
    ),
    JSON,
    *ABOUT,
)


@dataclass(frozen=True, slots=True)
class PlanOptions:
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


def build_parser() -> argparse.ArgumentParser:
    """The parser of all that comes after the goal or action and its files."""
    return parser_of(PROG, "GOAL|ACTION [FILE...] [options]", DESCRIPTION, EPILOG, FLAGS)


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words that begin the command line, and the flags after them."""
    words = []
    for word in argv:
        if word.startswith("-"):
            break
        words.append(word)
    return words, list(argv[len(words) :])


def parse_options(words: Sequence[str], given: Mapping[str, str], clock: Clock) -> PlanOptions:
    """What the command line means.

    Raises:
        UsageError: it cannot be meant.
    """
    action, files = _action(words)
    _check_flags(action, given)
    throttles = tuple(_each(given, "throttle", parse_rate))
    ends = throttles or "deadline" in given
    if action is PlanAction.REHEARSE and not ends:
        raise UsageError("rehearse needs --throttle or --deadline")
    if "quick" in given and not ends:
        raise UsageError("Option quick needs --throttle or --deadline")
    if len(throttles) > THROTTLES_MAX:
        raise UsageError(f"{len(throttles)} throttles; the maximum is {THROTTLES_MAX}")
    return PlanOptions(
        action,
        given.get("bootstrap-server", ""),
        backend_address(given),
        path_of(given, "picture"),
        path_of(given, "command-config"),
        _request(action, given) if isinstance(action, Goal) else None,
        tuple(files),
        throttles,
        _meant(given, "deadline", lambda text: deadline_ms(text, clock.now_ms(), None)),
        "quick" in given,
        _meant(given, "network", _a_rate),
        _meant(given, "disk-rate", _a_rate),
        path_of(given, "out"),
        whole(given, "seed", 0, 2**31 - 1) or 0,
        "json" in given,
    )


def _action(words: Sequence[str]) -> tuple[Goal | PlanAction, Sequence[str]]:
    if not words:
        raise UsageError(f"Name a goal or an action: {', '.join(_WORDS)}")
    first, *files = words
    if first not in _WORDS:
        raise UsageError(f"'{first}' is not a goal or an action: {', '.join(_WORDS)}")
    action = Goal(first) if first in _GOALS else PlanAction(first)
    if action in _TAKES_FILES and not files:
        raise UsageError(f"{action} needs the file of a plan")
    if files and (action not in _TAKES_FILES or (action is PlanAction.SHOW and len(files) > 1)):
        raise UsageError(f"Unexpected argument '{files[-1]}'")
    return action, files


def _check_flags(action: Goal | PlanAction, given: Mapping[str, str]) -> None:
    for flag in FLAGS:
        if flag.name in given and not flag.goes_with(action):
            raise UsageError(f"Option {flag.name} cannot be used with {action}")
        if flag.required and flag.name not in given and flag.goes_with(action):
            raise UsageError(f"{action} needs --{flag.name} {flag.metavar}")
    sources = [name for name in ("bootstrap-server", "backend", "picture") if given.get(name)]
    if len(sources) != 1:
        raise UsageError("Give one of --bootstrap-server, --backend and --picture")
    if "command-config" in given and sources != ["bootstrap-server"]:
        raise UsageError("Option command-config needs --bootstrap-server")
    if action is PlanAction.PICTURE and "out" not in given:
        raise UsageError("picture needs --out FILE")
    if action is PlanAction.PICTURE and sources == ["picture"]:
        raise UsageError("picture reads a cluster: give --bootstrap-server or --backend")


def _request(goal: Goal, given: Mapping[str, str]) -> PlanRequest:
    brokers = _ids(given, "broker")
    if goal is Goal.REPLACE:
        brokers += _ids(given, "with")
    cap = whole(given, "moves-per-broker", 1, 10_000)
    try:
        return PlanRequest(
            goal,
            brokers,
            tuple(_listed(given, "topic")) or ("*",),
            tuple(_listed(given, "exclude")),
            _factors(given),
            _weighing(given),
            _percent(given, "tolerance", TOLERANCE, 1_000),
            _meant(given, "max-bytes", parse_size),
            tuple(_listed(given, "empty")),
            _percent(given, "disk-limit", DISK_FRACTION, 100),
            "allow-fewer-racks" not in given,
            whole(given, "seed", 0, 2**31 - 1) or 0,
            None if cap is None else MoveCaps(cap, 2**31 - 1),
        )
    except BadInput as error:
        raise UsageError(error.message) from None


# One argument, and lists of them


def _listed(given: Mapping[str, str], name: str) -> list[str]:
    if name not in given:
        return []
    parts = [part.strip() for part in given[name].split(",")]
    if not all(parts):
        raise UsageError(f"Option {name}: '{given[name]}' has an empty part")
    return parts


def _each(given: Mapping[str, str], name: str, parse: Callable[[str], T]) -> list[T]:
    try:
        return [parse(part) for part in _listed(given, name)]
    except BadInput as error:
        raise UsageError(f"Option {name}: {error}") from None


def _meant(given: Mapping[str, str], name: str, parse: Callable[[str], T]) -> T | None:
    if name not in given:
        return None
    try:
        return parse(given[name])
    except BadInput as error:
        raise UsageError(f"Option {name}: {error}") from None


def _ids(given: Mapping[str, str], name: str) -> tuple[int, ...]:
    words = _listed(given, name)
    wrong = [word for word in words if not (word.isascii() and word.isdigit() and len(word) < 11)]
    if wrong:
        raise UsageError(f"Option {name}: '{wrong[0]}' is not a broker id")
    return tuple(map(int, words))


def _factors(given: Mapping[str, str]) -> dict[str, int]:
    found = {}
    for word in _listed(given, "factor"):
        topics, _, number = word.rpartition("=")
        if not (topics and number.isascii() and number.isdigit() and 0 < int(number) <= 1_000):
            raise UsageError(f"Option factor: '{word}' must be like orders*=3")
        if topics in found:
            raise UsageError(f"Option factor: '{topics}' is given twice")
        found[topics] = int(number)
    return found


def _weighing(given: Mapping[str, str]) -> Weighing:
    text = given.get("by", Weighing.BYTES)
    if text not in tuple(Weighing):
        raise UsageError(f"Option by: '{text}' must be one of {', '.join(Weighing)}")
    return Weighing(text)


_PERCENT: Final = re.compile(r"\d{1,4}(?:\.\d{1,6})?")


def _percent(given: Mapping[str, str], name: str, default: float, most: float) -> float:
    if name not in given:
        return default
    text = given[name].strip().removesuffix("%").strip()
    if not _PERCENT.fullmatch(text) or float(text) > most:
        raise UsageError(f"Option {name}: '{given[name]}' must be a percentage up to {most}")
    return float(text) / 100


def _a_rate(text: str) -> float | None:
    rate = parse_rate(text)
    return None if rate is None else float(rate)
