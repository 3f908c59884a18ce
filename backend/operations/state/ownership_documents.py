"""Owned throttles as JSON documents, one a broker and one a topic, for the journal.

A document is a plain JSON object, and its key says what it is about: `throttle/broker/3`,
`throttle/topic/payments`. Decoding is strict: what is missing, unknown, of another type, or out of
its range is an error that names the field, and nothing of that document is used. A throttle that
is half understood must not be lifted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from kshunt.backend.domain.throttles.configs import ReplicaSet
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
    ShareState,
    Source,
)
from kshunt.backend.operations.ownership.ownership import ListCellId, Ownership, RateCellId
from kshunt.backend.operations.state.reassignment_work import MALFORMED

FORMAT: Final = 1
"""Raised when a reader of the former format would misunderstand a document."""
BROKER_KEY: Final = "throttle/broker/"
TOPIC_KEY: Final = "throttle/topic/"
NOT_READ: Final = "NOT_READ"
SET_ON_TOPIC: Final = "DYNAMIC_TOPIC_CONFIG"
NOT_SET: Final = "DEFAULT_CONFIG"
RATE_MAX: Final = 2**63 - 1

Document: TypeAlias = Mapping[str, Any]
_Value = TypeVar("_Value")


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
    return {
        "prior": NOT_READ
        if prior is None
        else {"value": prior.value_bytes_per_s, "source": prior.source.value},
        "known": sorted(cell.known, key=lambda value: -1 if value is None else value),
        "shares": {
            operation_id: {
                "rate": share.rate_bytes_per_s,
                "auto_remove": share.auto_remove,
                "state": share.state.value,
            }
            for operation_id, share in sorted(cell.shares.items())
        },
    }


def _list_document(cell: ListCell) -> Document:
    source = SET_ON_TOPIC if cell.prior else NOT_SET
    return {
        "prior": NOT_READ if cell.prior is None else {"value": str(cell.prior), "source": source},
        "pending": _text(cell.pending),
        "shares": {
            operation_id: {
                "pairs": _text(share.pairs),
                "going": _text(share.given_up),
                "auto_remove": share.auto_remove,
                "state": share.state.value,
            }
            for operation_id, share in sorted(cell.shares.items())
        },
    }


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
                raise _error(key, f"is no throttle record's key: {BROKER_KEY} or {TOPIC_KEY}")
        except UnreadableOwnership as error:
            unreadable[key] = error
        except MALFORMED as error:
            unreadable[key] = _error(key, f"cannot be understood: {error}")
    return Ownership(rates, lists), unreadable


def _error(where: str, problem: str) -> UnreadableOwnership:
    return UnreadableOwnership(
        f"The throttle record {where} {problem}. It is not used, and its throttle stays.",
        advice="Compare with the configuration, take the throttle off by hand if nothing moves, "
        "and remove the record.",
    )


def _broker(key: str, document: Document) -> dict[RateCellId, RateCell]:
    fields = _fields(document, key, ("format", "broker", "rates"))
    broker = _whole(fields["broker"], f"{key}: broker")
    if key != f"{BROKER_KEY}{broker}":
        raise _error(f"{key}: broker", f"is {broker}, which the key does not name")
    cells = _object(fields["rates"], f"{key}: rates")
    return {
        (broker, _named(RateKey, name, f"{key}: rates")): _rate_cell(cell, f"{key}: rates.{name}")
        for name, cell in cells.items()
    }


def _topic(key: str, document: Document) -> dict[ListCellId, ListCell]:
    fields = _fields(document, key, ("format", "topic", "lists"))
    topic = _string(fields["topic"], f"{key}: topic")
    if key != f"{TOPIC_KEY}{topic}":
        raise _error(f"{key}: topic", f"is '{topic}', which the key does not name")
    cells = _object(fields["lists"], f"{key}: lists")
    return {
        (topic, _named(ListKey, name, f"{key}: lists")): _list_cell(cell, f"{key}: lists.{name}")
        for name, cell in cells.items()
    }


def _rate_cell(document: object, where: str) -> RateCell:
    fields = _parts(document, where, ("prior", "known", "shares"))
    prior = None
    if fields["prior"] != NOT_READ:
        found = _parts(fields["prior"], f"{where}.prior", ("value", "source"))
        source = _named(Source, found["source"], f"{where}.prior.source")
        prior = FoundRate(_rate(found["value"], f"{where}.prior.value"), source)
    if not isinstance(fields["known"], list):
        raise _error(f"{where}.known", "is no list")
    known = frozenset(_rate(value, f"{where}.known") for value in fields["known"])
    shares = _shares(fields["shares"], f"{where}.shares", _rate_share)
    return RateCell(prior, shares, known)


def _rate_share(document: object, where: str) -> RateShare:
    fields = _parts(document, where, ("rate", "auto_remove", "state"))
    return RateShare(
        _rate(fields["rate"], f"{where}.rate"),
        _truth(fields["auto_remove"], f"{where}.auto_remove"),
        _named(ShareState, fields["state"], f"{where}.state"),
    )


def _list_cell(document: object, where: str) -> ListCell:
    fields = _parts(document, where, ("prior", "pending", "shares"))
    prior = None
    if fields["prior"] != NOT_READ:
        found = _parts(fields["prior"], f"{where}.prior", ("value", "source"))
        prior = _replicas(found["value"], f"{where}.prior.value")
        if found["source"] != (SET_ON_TOPIC if prior else NOT_SET):
            raise _error(f"{where}.prior.source", f"is {found['source']!r}, unlike its value")
    pending = _pairs(fields["pending"], f"{where}.pending")
    return ListCell(prior, _shares(fields["shares"], f"{where}.shares", _list_share), pending)


def _list_share(document: object, where: str) -> ListShare:
    fields = _parts(document, where, ("pairs", "going", "auto_remove", "state"))
    state = _named(ShareState, fields["state"], f"{where}.state")
    if state is ShareState.ENDING:
        raise _error(f"{where}.state", "is 'ending', which a list's share never is")
    return ListShare(
        _pairs(fields["pairs"], f"{where}.pairs"),
        _pairs(fields["going"], f"{where}.going"),
        _truth(fields["auto_remove"], f"{where}.auto_remove"),
        state,
    )


def _shares(
    document: object, where: str, decode: Callable[[object, str], _Value]
) -> dict[str, _Value]:
    shares = _object(document, where)
    return {o: decode(share, f"{where}.{o}") for o, share in shares.items()}


# Fields


def _fields(document: object, key: str, names: tuple[str, ...]) -> dict[str, Any]:
    """A whole document's fields; its format is judged before anything else."""
    found = _object(document, key)
    version = found.get("format")
    if type(version) is int and version > FORMAT:
        raise _error(f"{key}: format", f"is {version}; this kshunt knows {FORMAT}")
    fields = _parts(found, key, names)
    if type(version) is not int or version != FORMAT:
        raise _error(f"{key}: format", f"is {version!r}, which never was one")
    return fields


def _parts(document: object, where: str, names: tuple[str, ...]) -> dict[str, Any]:
    found = _object(document, where)
    for name in names:
        if name not in found:
            raise _error(f"{where}.{name}", "is missing")
    for name in found:
        if name not in names:
            raise _error(f"{where}.{name}", "is unknown")
    return found


def _object(document: object, where: str) -> dict[str, Any]:
    if not isinstance(document, dict) or not all(isinstance(name, str) for name in document):
        raise _error(where, "is no JSON object")
    return document


def _whole(value: object, where: str) -> int:
    if type(value) is not int or not 0 <= value <= RATE_MAX:
        raise _error(where, f"is {value!r}, and not a whole number from 0 to 2^63-1")
    return value


def _rate(value: object, where: str) -> int | None:
    return None if value is None else _whole(value, where)


def _truth(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise _error(where, f"is {value!r}, and neither true nor false")
    return value


def _string(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise _error(where, f"is {value!r}, and not a text")
    return value


_Word = TypeVar("_Word", RateKey, ListKey, Source, ShareState)


def _named(kind: type[_Word], value: Any, where: str) -> _Word:
    try:
        return kind(value)
    except ValueError:
        raise _error(where, f"has {value!r}, which is unknown") from None


def _replicas(value: object, where: str) -> ReplicaSet:
    try:
        return ReplicaSet.parse(_string(value, where))
    except BadInput as error:
        raise _error(where, f"is unusable: {error.message}") from None


def _pairs(value: object, where: str) -> Pairs:
    found = _replicas(value, where)
    if found.everything:
        raise _error(where, "is '*'; a share names its replicas")
    return found.pairs
