"""Rates that an operator has typed or stepped to, before anybody was asked to set them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.forecast.end_words import end_text
from kshunt.backend.domain.text.formatting import (
    UNKNOWN,
    exact_rate_text,
    limit_text,
    listed,
    many,
    rate_text,
)
from kshunt.backend.domain.throttles.configs import (
    LEADER_RATE,
    RATE_MAX_BYTES_PER_S,
    RATE_MIN_BYTES_PER_S,
    ThrottledRate,
    Throttles,
    parse_rate,
)
from kshunt.backend.errors import BadInput

if TYPE_CHECKING:
    from kshunt.backend.domain.forecast.what_if import WhatIf
    from kshunt.backend.domain.replicas.expected_end_values import ExpectedEnd
    from kshunt.backend.domain.replicas.snapshot import Snapshot
    from kshunt.backend.domain.replicas.stuck_causes import RateNeed

STEP: Final = 1.1
FIGURES: Final = 3
"""Significant figures of a rate that was stepped to: what is shown is what is sent."""
BROKERS_MOST: Final = 4

Pending = tuple[tuple[int, ThrottledRate], ...]
"""Rates by broker, sorted by id."""


@dataclass(frozen=True, slots=True)
class Foresight:
    """What pending rates would do, next to what the present ones do."""

    pending: Pending
    before: Throttles
    now: WhatIf
    then: WhatIf
    now_ms: int
    """By the backend's clock."""
    needs: tuple[RateNeed, ...] = ()
    """Of what is stuck under a throttle that is too low."""

    @property
    def lowest(self) -> RateNeed | None:
        """The rate that would fall short the most of what is stuck under it; None where all do."""
        wanted = dict(self.pending)
        present = {broker: found.rate for broker, found in self.before.rates.items()}
        short = []
        for need in self.needs:
            rate = wanted.get(need.broker, present.get(need.broker))
            if rate is None:
                continue
            leads = need.key == LEADER_RATE
            value = rate.leader_bytes_per_s if leads else rate.follower_bytes_per_s
            if value is not None and value < need.needs_bytes_per_s:
                short.append((need.needs_bytes_per_s - value, need))
        return max(short, key=lambda found: found[0])[1] if short else None

    @property
    def is_copying(self) -> bool:
        """Whether anything is copied at present from which an end can be computed."""
        return any(use.received_bytes_per_s > 0 for use in self.now.brokers.values())


def needs_of(snapshot: Snapshot) -> tuple[RateNeed, ...]:
    """Rates that would do for what is stuck."""
    found = {need for one in snapshot.explained.values() for need in one.rates}
    return tuple(sorted(found, key=str))


def stepped(rate: ThrottledRate, *, up: bool) -> ThrottledRate:
    """A tenth more, or as much less as takes that back; a side without a rate stays so."""
    return ThrottledRate(_step(rate.leader_bytes_per_s, up), _step(rate.follower_bytes_per_s, up))


def _step(value: int | None, up: bool) -> int | None:
    if value is None:
        return None
    wanted = float(f"{value * STEP if up else value / STEP:.{FIGURES}g}")
    return min(max(round(wanted), RATE_MIN_BYTES_PER_S), RATE_MAX_BYTES_PER_S)


def typed_rates(text: str) -> ThrottledRate:
    """`50MB/s` for both sides, or `50MB/s 40MB/s`: leader, follower.

    Raises:
        BadInput: it is neither.
    """
    parts = text.split()
    if not 1 <= len(parts) <= 2:
        raise BadInput("Type one rate for both sides, or two: leader, follower; none removes it.")
    first, *second = [parse_rate(part) for part in parts]
    return ThrottledRate(first, second[0] if second else first)


def with_rates(pending: Pending, rates: Mapping[int, ThrottledRate], present: Throttles) -> Pending:
    """With these rates too; without those that are what is set already."""
    wanted = {**dict(pending), **rates}
    changed = {
        broker: rate
        for broker, rate in wanted.items()
        if broker not in present.rates or present.rates[broker].rate != rate
    }
    return tuple(sorted(changed.items()))


def pair_text(rate: ThrottledRate | None) -> str:
    """`25.0 MB/s`, or both sides where they differ; `?` where it is not known."""
    if rate is None:
        return "?"
    leader, follower = limit_text(rate.leader_bytes_per_s), limit_text(rate.follower_bytes_per_s)
    return leader if leader == follower else f"{leader} / {follower}"


def change_lines(seen: Foresight) -> list[str]:
    """`broker 2: 25.0 MB/s -> 27.5 MB/s`; brokers that change alike together."""
    alike: dict[str, list[int]] = {}
    for broker, rate in seen.pending:
        found = seen.before.rates.get(broker)
        before = pair_text(None if found is None else found.rate)
        alike.setdefault(f"{before} -> {pair_text(rate)}", []).append(broker)
    lines = [f"{some_brokers(ids)}: {change}" for change, ids in alike.items()]
    more = len(lines) - 2
    return lines if more <= 0 else [*lines[:2], f"and {many(more, 'other change')}"]


def typed_back(rate: ThrottledRate) -> str:
    """As an operator would type it, exactly: `25MB/s`, or both sides where they differ."""
    leader, follower = map(typed_rate, (rate.leader_bytes_per_s, rate.follower_bytes_per_s))
    return leader if leader == follower else f"{leader} {follower}"


def typed_rate(rate_bytes_per_s: int | None) -> str:
    """One rate as an operator would type it, exactly: `25MB/s`, `26.2144MB/s`."""
    return exact_rate_text(rate_bytes_per_s).replace(" ", "")


def some_brokers(ids: Sequence[int]) -> str:
    """`broker 2`, or `brokers 1, 2, 3, 4 and 3 more`."""
    if len(ids) == 1:
        return f"broker {ids[0]}"
    return f"brokers {listed(ids, BROKERS_MOST)}"


def what_if_text(seen: Foresight, *, brokers: int = 1) -> str:
    """`At 55.0 MB/s: done 12:16 (12:14-12:20), was 12:40; 2 replicas never arrive`."""
    rates = {pair_text(rate) for _, rate in seen.pending}
    at = f"At {rates.pop()}" if len(rates) == 1 else "Then"
    if not seen.then.copies:
        return f"{at}: nothing is being copied, so no end changes"
    if seen.needs and (seen.lowest is None or not seen.is_copying):
        return f"{at}: {_needed_text(seen)}"
    now, then = (_when(one.end, seen.now_ms) for one in (seen.now, seen.then))
    done = f"{at}: never done" if seen.then.end.never else f"{at}: done {then}"
    parts = [f"{done}, {'as it is' if now == then else f'was {now}'}"]
    room = tight_text(seen.then, brokers, "would use ")
    parts += [room] if room else []
    parts += [_needed_text(seen)] if seen.needs else []
    return "; ".join([*parts, *_apart(seen.then)])


def _when(end: ExpectedEnd, now_ms: int) -> str:
    """`?` where the model cannot say; measuring would not help."""
    return UNKNOWN if end.p50_s is None and not end.never else end_text(end, now_ms)


def _apart(then: WhatIf) -> list[str]:
    """Copies that have no end, and why, in words."""
    parts, end = [], then.end
    if end.never:
        verb = "arrives" if end.never == 1 else "arrive"
        parts.append(f"{many(end.never, 'replica')} never {verb}")
    if end.unknown:
        why = ", ".join(
            why if count == end.unknown else f"{count:,} {why}" for why, count in then.why.items()
        )
        parts.append(f"unknown of {many(end.unknown, 'replica')}{f' ({why})' if why else ''}")
    return parts


def _needed_text(seen: Foresight) -> str:
    """Whether what is stuck would arrive: what passes now, if anything, does not tell."""
    short = seen.lowest
    if short is None:
        return "enough for all stuck replicas; their end is unknown yet"
    side = "leader" if short.key == LEADER_RATE else "follower"
    needs = rate_up_text(short.needs_bytes_per_s)
    return f"too low, broker {short.broker} needs a {side} rate of {needs}"


def rate_up(bytes_per_s: int) -> int:
    """In three figures, and never less than it is."""
    step = int(10 ** max(len(str(bytes_per_s)) - FIGURES, 0))
    return -(-bytes_per_s // step) * step


def rate_up_text(bytes_per_s: int) -> str:
    """In three figures, and never less than it is: `31.6 MB/s`."""
    return rate_text(rate_up(bytes_per_s))


def tight_text(seen: WhatIf, most: int, verb: str = "") -> str:
    """`broker 3 48.0 of 55.0 MB/s`, the fullest first; empty where no rate is used."""
    sides = [(use.broker, use.tightest) for use in seen.brokers.values()]
    known = [(broker, *side) for broker, side in sides if side is not None]
    fullest = sorted(known, key=lambda found: (-found[1] / found[2], found[0]))[:most]
    return ", ".join(
        f"broker {broker} {verb}{_of(min(used, rate), rate)}" for broker, used, rate in fullest
    )


def _of(used: float, rate: int) -> str:
    """`48.0 of 55.0 MB/s`: one unit where both have the same."""
    first, last = rate_text(used), rate_text(rate)
    unit = last.partition(" ")[2]
    return f"{first.removesuffix(f' {unit}')} of {last}"
