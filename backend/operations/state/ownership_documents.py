"""Owned throttles as JSON documents, one a broker and one a topic, for the journal.

A document is a plain JSON object, and its key says what it is about: `throttle/broker/3`,
`throttle/topic/payments`. Decoding is strict: what is missing, unknown, of another type, or out of
its range is an error that names the field, and nothing of that document is used. A throttle that
is half understood must not be lifted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar

from msgspec import Struct

from kshunt.backend.domain.cluster.config_names import ConfigSource
from kshunt.backend.domain.throttles.configs import ReplicaSet
from kshunt.backend.domain.throttles.owners import ShareState
from kshunt.backend.domain.untrusted.json_codec import (
    UnreadableValue,
    Whole,
    from_document,
    to_document,
)
from kshunt.backend.errors import BadInput, UnreadableOwnership
from kshunt.backend.operations.ownership.cells import (
    FoundRate,
    ListCell,
    ListKey,
    ListShare,
    Pairs,
    RateCell,
    RateKey,
    RateShare,
)
from kshunt.backend.operations.ownership.ownership import ListCellId, Ownership, RateCellId
from kshunt.backend.operations.state.reassignment_work import MALFORMED

FORMAT: Final = 1
"""Raised when a reader of the former format would misunderstand a document."""
BROKER_KEY: Final = "throttle/broker/"
TOPIC_KEY: Final = "throttle/topic/"
NOT_READ: Final[Literal["NOT_READ"]] = "NOT_READ"

Document: TypeAlias = Mapping[str, Any]
_Value = TypeVar("_Value")


class _StrictDocument(Struct, forbid_unknown_fields=True):
    """All of these have each of their fields, and no others."""


class _BrokerDocument(_StrictDocument):
    format: Literal[1]
    broker: Whole
    rates: dict[RateKey, Any]


class _TopicDocument(_StrictDocument):
    format: Literal[1]
    topic: str
    lists: dict[ListKey, Any]


class _FoundRateDocument(_StrictDocument):
    value: Whole | None
    source: ConfigSource


class _RateShareDocument(_StrictDocument):
    rate: Whole | None
    auto_remove: bool
    state: ShareState


class _Rate(_StrictDocument):
    prior: Literal["NOT_READ"] | _FoundRateDocument
    known: list[Whole | None]
    shares: dict[str, Any]


class _FoundList(_StrictDocument):
    value: str
    source: str


class _ListShareDocument(_StrictDocument):
    pairs: str
    going: str
    auto_remove: bool
    state: ShareState


class _List(_StrictDocument):
    prior: Literal["NOT_READ"] | _FoundList
    pending: str
    shares: dict[str, Any]


def to_documents(ownership: Ownership) -> dict[str, Document]:
    """Every document, by its key."""
    documents: dict[str, Document] = {
        f"{BROKER_KEY}{broker}": {"format": FORMAT, "broker": broker, "rates": {}}
        for broker in ownership.brokers
    }
    for topic in ownership.topics:
        documents[f"{TOPIC_KEY}{topic}"] = {"format": FORMAT, "topic": topic, "lists": {}}
    for (broker, rate_key), rate in sorted(ownership.rates.items()):
        documents[f"{BROKER_KEY}{broker}"]["rates"][rate_key.value] = _rate_document(rate)
    for (topic, list_key), listed in sorted(ownership.lists.items()):
        documents[f"{TOPIC_KEY}{topic}"]["lists"][list_key.value] = _list_document(listed)
    return documents


def changed_documents(before: Ownership, after: Ownership) -> dict[str, Document | None]:
    """What to store so that a decision survives a crash; None removes a document."""
    was, becomes = to_documents(before), to_documents(after)
    changed: dict[str, Document | None] = {
        key: document for key, document in becomes.items() if document != was.get(key)
    }
    return changed | dict.fromkeys(key for key in was if key not in becomes)


def _rate_document(cell: RateCell) -> Document:
    prior = cell.prior
    written = _Rate(
        NOT_READ if prior is None else _FoundRateDocument(prior.value_bytes_per_s, prior.source),
        sorted(cell.known, key=lambda value: -1 if value is None else value),
        {
            id: _RateShareDocument(one.rate_bytes_per_s, one.auto_remove, one.state)
            for id, one in sorted(cell.shares.items())
        },
    )
    return to_document(written)


def _list_document(cell: ListCell) -> Document:
    source = ConfigSource.DYNAMIC_TOPIC if cell.prior else ConfigSource.DEFAULT
    written = _List(
        NOT_READ if cell.prior is None else _FoundList(str(cell.prior), source),
        _text(cell.pending),
        {
            id: _ListShareDocument(
                _text(one.pairs), _text(one.given_up), one.auto_remove, one.state
            )
            for id, one in sorted(cell.shares.items())
        },
    )
    return to_document(written)


def _text(pairs: Pairs) -> str:
    return str(ReplicaSet(pairs))


def readable(
    documents: Mapping[str, Document],
) -> tuple[Ownership, dict[str, UnreadableOwnership]]:
    """What can be understood, and for each document that cannot, why.

    A broker or topic of the second part must not be throttled or lifted: we may own it.
    """
    rates: dict[RateCellId, RateCell] = {}
    lists: dict[ListCellId, ListCell] = {}
    unreadable: dict[str, UnreadableOwnership] = {}
    for key, document in documents.items():
        try:
            if key.startswith(BROKER_KEY):
                rates |= _broker(key, document)
            elif key.startswith(TOPIC_KEY):
                lists |= _topic(key, document)
            else:
                raise _error(
                    key, f"is not the key of a throttle record: {BROKER_KEY} or {TOPIC_KEY}"
                )
        except UnreadableOwnership as error:
            unreadable[key] = error
        except MALFORMED as error:
            unreadable[key] = _error(key, f"cannot be read: {error}")
    return Ownership(rates, lists), unreadable


def _error(where: str, problem: str) -> UnreadableOwnership:
    return UnreadableOwnership(
        f"The throttle record {where} {problem}. kshunt ignores it, and its throttle stays.",
        advice="Compare it with the configuration. If nothing moves, remove the throttle by "
        "hand. Then remove the record.",
    )


def _broker(key: str, document: Document) -> dict[RateCellId, RateCell]:
    _check_format(key, document)
    found = _checked(_BrokerDocument, document, key)
    if key != f"{BROKER_KEY}{found.broker}":
        raise _error(f"{key}: broker", f"is {found.broker}, which differs from the key")
    return {
        (found.broker, name): _rate_cell(cell, f"{key}: rates.{name}")
        for name, cell in found.rates.items()
    }


def _topic(key: str, document: Document) -> dict[ListCellId, ListCell]:
    _check_format(key, document)
    found = _checked(_TopicDocument, document, key)
    if key != f"{TOPIC_KEY}{found.topic}":
        raise _error(f"{key}: topic", f"is '{found.topic}', which differs from the key")
    return {
        (found.topic, name): _list_cell(cell, f"{key}: lists.{name}")
        for name, cell in found.lists.items()
    }


def _check_format(key: str, document: Document) -> None:
    version = document.get("format")
    if type(version) is int and version > FORMAT:
        raise _error(f"{key}: format", f"is {version}; this kshunt knows {FORMAT}")


def _rate_cell(document: object, where: str) -> RateCell:
    found = _checked(_Rate, document, where)
    prior = found.prior if isinstance(found.prior, _FoundRateDocument) else None
    return RateCell(
        None if prior is None else FoundRate(prior.value, prior.source),
        {id: _rate_share(one, f"{where}.shares.{id}") for id, one in found.shares.items()},
        frozenset(found.known),
    )


def _rate_share(document: object, where: str) -> RateShare:
    found = _checked(_RateShareDocument, document, where)
    return RateShare(found.rate, found.auto_remove, found.state)


def _list_cell(document: object, where: str) -> ListCell:
    found = _checked(_List, document, where)
    prior = None
    if isinstance(found.prior, _FoundList):
        prior = _replicas(found.prior.value, f"{where}.prior.value")
        if found.prior.source != (ConfigSource.DYNAMIC_TOPIC if prior else ConfigSource.DEFAULT):
            raise _error(
                f"{where}.prior.source",
                f"is {found.prior.source!r}, which does not match its value",
            )
    return ListCell(
        prior,
        {id: _list_share(one, f"{where}.shares.{id}") for id, one in found.shares.items()},
        _pairs(found.pending, f"{where}.pending"),
    )


def _list_share(document: object, where: str) -> ListShare:
    found = _checked(_ListShareDocument, document, where)
    if found.state is ShareState.ENDING:
        raise _error(f"{where}.state", "is 'ending', which is not possible for a list")
    pairs, going = _pairs(found.pairs, f"{where}.pairs"), _pairs(found.going, f"{where}.going")
    return ListShare(pairs, going, found.auto_remove, found.state)


def _checked(kind: type[_Value], document: object, where: str) -> _Value:
    try:
        return from_document(kind, document)
    except UnreadableValue as error:
        raise _error(where, f"cannot be read: {error}") from None


def _replicas(value: str, where: str) -> ReplicaSet:
    try:
        return ReplicaSet.parse(value)
    except BadInput as error:
        raise _error(where, f"cannot be used: {error.message}") from None


def _pairs(value: str, where: str) -> Pairs:
    found = _replicas(value, where)
    if found.everything:
        raise _error(where, "is '*', but a share must name its replicas")
    return found.pairs
