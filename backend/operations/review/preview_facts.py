"""Whether a preview still holds: the facts that it was made from, then and now.

Goals
    A confirmation that was given to one state of the cluster is not used on another. On a cluster
    at work a preview holds as long as what the change reads and writes is as it was shown.
Constraints
    Any backend of the cluster can say whether a preview holds. The one that made it knows more.
Algorithm
    The fingerprint has one short hash for each aspect. Where the facts themselves are known, a
    preview holds if none of them has another value, and none is new of a partition. A fact that is
    gone makes the change smaller: a copy has ended, a partition has the right leader by now. The
    change is then carried out for the rest. Where the facts are not known, the hashes have to be
    the same. Conflicts name the aspects that changed.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

PreviewFacts: TypeAlias = Mapping[str, Mapping[Any, object]]
"""By aspect, then by what it is of: a broker, a partition, a topic. Values have a stable `repr`."""

BROKER: Final = "which brokers are up"
REPLICAS: Final = "where replicas are"
LEADER: Final = "who leads"
IN_SYNC: Final = "which replicas are in sync"
REASSIGNMENT: Final = "what is moving"
THROTTLE: Final = "the throttles"
HOLDS: Final = "what the moves must wait for"
ASPECTS: Final = (BROKER, REPLICAS, LEADER, IN_SYNC, REASSIGNMENT, THROTTLE, HOLDS)
"""In words for an operator."""
MAY_GROW: Final = frozenset({BROKER, THROTTLE})
"""Aspects in which a new fact is none of a partition that was not shown."""
SHOWN_MAX: Final = 32
"""Previews whose facts are remembered."""
FACTS_MAX: Final = 100_000
"""A preview of more facts is not remembered."""


def fingerprint_of(facts: PreviewFacts) -> str:
    """One short hash for each aspect."""
    return "-".join(_short_hash(sorted_facts(facts.get(aspect, {}))) for aspect in ASPECTS)


def sorted_facts(facts: Mapping[Any, object]) -> list[tuple[str, str]]:
    """Facts in an order of their own, as text."""
    return sorted((repr(key), repr(value)) for key, value in facts.items())


def what_changed(preview: str, present: PreviewFacts, shown: PreviewFacts | None) -> list[str]:
    """The aspects in which a preview does not hold; every one if `preview` is no fingerprint."""
    before, now = preview.split("-"), fingerprint_of(present).split("-")
    if len(before) != len(now):
        return list(ASPECTS)
    differ = [words for words, old, new in zip(ASPECTS, before, now, strict=True) if old != new]
    if shown is None:
        return differ
    return [words for words in differ if _differs(words, shown, present)]


def _differs(aspect: str, shown: PreviewFacts, present: PreviewFacts) -> bool:
    before, now = shown.get(aspect, {}), present.get(aspect, {})
    new = now.keys() - before.keys()
    return bool(new and aspect not in MAY_GROW) or any(
        before[key] != now[key] for key in now.keys() & before.keys()
    )


class ShownPreviews:
    """The facts of the previews that this backend made last, by fingerprint."""

    def __init__(self) -> None:
        self._shown: OrderedDict[str, PreviewFacts] = OrderedDict()

    def remember(self, facts: PreviewFacts) -> None:
        """Keep the facts of a preview, unless they are too many."""
        if sum(map(len, facts.values())) > FACTS_MAX:
            return
        fingerprint = fingerprint_of(facts)
        self._shown[fingerprint] = facts
        self._shown.move_to_end(fingerprint)
        while len(self._shown) > SHOWN_MAX:
            self._shown.popitem(last=False)

    def facts_of(self, fingerprint: str) -> PreviewFacts | None:
        """The facts of a preview; None where it is not remembered."""
        return self._shown.get(fingerprint)


def _short_hash(facts: object) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:10]
