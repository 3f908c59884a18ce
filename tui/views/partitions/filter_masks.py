"""Filter terms applied to a snapshot: each becomes a mask over the rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import translate
from typing import TYPE_CHECKING, Any

import numpy as np

from kshunt.backend.domain.replicas.snapshot import ReplicaStatus
from kshunt.tui.facts.filter_terms import Term, comparison_of, modes_of, numbers_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kshunt.backend.domain.operations.operation import Operation
    from kshunt.tui.facts.snapshot_facts import Facts


def mask_of(
    terms: tuple[Term, ...], facts: Facts, operations: Sequence[Operation] = ()
) -> NDArray[np.bool_] | None:
    """Which rows pass, or None where every row does."""
    mask: NDArray[np.bool_] | None = None
    for term in terms:
        moved = term.field == "op"
        holds = _moved_by(term.value, facts, operations) if moved else _holds(term, facts)
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
    if term.field == "mode":
        return np.isin(rows.mode, [int(mode) for mode in modes_of(term)])
    if term.field in ("partition", "broker", "leader"):
        return np.isin(getattr(rows, term.field), numbers_of(term))
    if term.field in ("eta", "rate"):
        return _compare_while_behind(term, facts)
    column = {"behind": rows.lag_messages, "lag": rows.lag_bytes, "size": rows.size_bytes}
    return _compare(term, column[term.field]) & (column[term.field] >= 0)


def _moved_by(prefix: str, facts: Facts, operations: Sequence[Operation]) -> NDArray[np.bool_]:
    """Rows of the partitions of operations whose id begins so, also of those that have ended."""
    from kshunt.tui.facts.progress import operation_rows

    found = np.zeros(len(facts.rows), np.bool_)
    for operation in operations:
        if operation.id.lower().startswith(prefix.lower()):
            found |= operation_rows(facts, operation)
    return found


def _topics_where(facts: Facts, holds: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Asked once a topic, not once a row."""
    wanted = np.fromiter(
        (holds(name) for name in facts.snapshot.topics), np.bool_, len(facts.snapshot.topics)
    )
    found: NDArray[np.bool_] = wanted[facts.rows.topic_index]
    return found


_COMPARE = {
    ">": np.greater,
    "<": np.less,
    ">=": np.greater_equal,
    "<=": np.less_equal,
    "=": np.equal,
}


def _compare(term: Term, column: NDArray[Any]) -> NDArray[np.bool_]:
    sign, bound = comparison_of(term)
    found: NDArray[np.bool_] = _COMPARE[sign](column, bound)
    return found


def _compare_while_behind(term: Term, facts: Facts) -> NDArray[np.bool_]:
    """A replica that has nothing to copy has no rate and no time left. NaN is in no range."""
    rows = facts.rows
    column = rows.eta_s if term.field == "eta" else rows.catch_up_bytes_per_s
    found: NDArray[np.bool_] = facts.behind & (rows.leader != rows.broker)
    return found & _compare(term, column)


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
        "misled": lambda: (rows.position == 0) & ~leads & ~facts.being_deleted,
    }
    return masks[word]()
