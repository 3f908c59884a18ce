"""Filter terms applied to a snapshot: each becomes a mask over the rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate
from typing import TYPE_CHECKING

import numpy as np

from backend.domain.snapshot import ReplicaStatus
from tui.tables.filters import Term, comparison_of, numbers_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tui.tables.facts import Facts


def mask_of(terms: tuple[Term, ...], facts: Facts) -> NDArray[np.bool_] | None:
    """Which rows pass, or None where every row does."""
    mask: NDArray[np.bool_] | None = None
    for term in terms:
        holds = _holds(term, facts)
        holds = ~holds if term.negated else holds
        mask = holds if mask is None else mask & holds
    return mask


def _holds(term: Term, facts: Facts) -> NDArray[np.bool_]:
    rows = facts.rows
    if term.field == "text":
        return _topics_where(facts, lambda name: term.value in name.lower())
    if term.field == "topic":
        pattern = re.compile(translate(term.value), re.IGNORECASE)
        return _topics_where(facts, lambda name: pattern.match(name) is not None)
    if term.field == "word":
        return _word(term.value, facts)
    if term.field == "partition":
        return np.isin(rows.partition, numbers_of(term))
    if term.field == "broker":
        return np.isin(rows.broker, numbers_of(term))
    column = {"behind": rows.lag_messages, "lag": rows.lag_bytes, "size": rows.size_bytes}
    return _compare(term, column[term.field])


def _topics_where(facts: Facts, holds: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Asked once a topic, not once a row."""
    wanted = np.fromiter(
        (holds(name) for name in facts.snapshot.topics), np.bool_, len(facts.snapshot.topics)
    )
    found: NDArray[np.bool_] = wanted[facts.rows.topic_index]
    return found


def _compare(term: Term, column: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Unknown values are in no range."""
    sign, bound = comparison_of(term)
    compare = {
        ">": np.greater,
        "<": np.less,
        ">=": np.greater_equal,
        "<=": np.less_equal,
        "=": np.equal,
    }[sign]
    found: NDArray[np.bool_] = compare(column, bound) & (column >= 0)
    return found


def _word(word: str, facts: Facts) -> NDArray[np.bool_]:
    rows = facts.rows
    states = {
        "behind": ReplicaStatus.BEHIND,
        "insync": ReplicaStatus.IN_SYNC,
        "unknown": ReplicaStatus.LAG_UNKNOWN,
        "offline": ReplicaStatus.OFFLINE,
    }
    if word in states:
        found: NDArray[np.bool_] = rows.status == states[word]
        return found
    leads = rows.leader == rows.broker
    masks: dict[str, Callable[[], NDArray[np.bool_]]] = {
        "moving": lambda: facts.moving,
        "leader": lambda: leads,
        "follower": lambda: ~leads,
        "adding": lambda: rows.adding,
        "removing": lambda: rows.removing,
        "throttled": lambda: rows.leader_throttled | rows.follower_throttled,
        "stale": lambda: facts.stale,
        "stuck": lambda: facts.stuck,
        # The preferred replica of a partition that somebody else leads.
        "misled": lambda: (rows.position == 0) & ~leads,
    }
    return masks[word]()
