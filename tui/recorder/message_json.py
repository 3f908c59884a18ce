"""Messages of a feed and whole scenes as JSON, both ways; snapshots are in `columns`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kshunt.backend.domain.untrusted.strict_json import read_json
from kshunt.tui.feed.messages import (
    ActionTaken,
    AlertArrived,
    AnswerArrived,
    AnswerFailed,
    AuditArrived,
    BackendConnection,
    Connected,
    ConnectionState,
    Disconnected,
    OperationsArrived,
)
from kshunt.tui.feed.scene import Scene
from kshunt.tui.recorder.json_values import (
    JSON_BYTES_MAX,
    UnreadableRecordedValue,
    check_fields,
    decode,
    encode,
)

if TYPE_CHECKING:
    from textual.message import Message

    from kshunt.backend.domain.operations.operation import Operation

Json = dict[str, Any]


def encode_fact(scene: Scene, message: Message) -> bytes | None:
    """A message as it is recorded, given what was known before; None if it is no fact.

    Raises:
        TypeError: it holds what cannot be recorded.
    """
    document = _document(scene, message)
    return None if document is None else _text(document)


def _document(scene: Scene, message: Message) -> Json | None:
    match message:
        case OperationsArrived():
            return _operations(scene.operations, message.operations)
        case Connected():
            return {"m": "connected", "info": encode(message.info)}
        case Disconnected():
            return {"m": "disconnected", "reason": message.reason}
        case AlertArrived():
            return {"m": "alert", "text": message.text}
        case AnswerArrived():
            return {"m": "answer", "about": message.about, "answer": encode(message.answer)}
        case AnswerFailed():
            return {"m": "failed", "about": message.about, "reason": message.reason}
        case AuditArrived():
            return {"m": "audit", "id": message.operation_id, "lines": encode(message.lines)}
        case ActionTaken():
            return {
                "m": "action",
                "stage": message.stage,
                "text": message.text,
                "who": message.who,
                "reason": message.reason,
            }
        case _:
            return None


def _operations(before: tuple[Operation, ...], after: tuple[Operation, ...]) -> Json:
    """Those that changed, and the order of all: a list may hold thousands of partitions."""
    known = {operation.id: operation for operation in before}
    return {
        "m": "operations",
        "changed": [encode(one) for one in after if known.get(one.id) != one],
        "order": [one.id for one in after],
    }


def decode_fact(scene: Scene, payload: bytes) -> Message:
    """The message of a record, given what was known before.

    Raises:
        UnreadableRecordedValue: it is damaged, or was written by a version that knows more.
    """
    document = parsed(payload)
    try:
        return _message(scene, document)
    except (KeyError, TypeError) as error:
        raise UnreadableRecordedValue(f"a recorded fact cannot be read: {error!r}") from None


def _message(scene: Scene, document: Json) -> Message:
    match document["m"]:
        case "operations":
            return OperationsArrived(_merged(scene.operations, document))
        case "connected":
            return Connected(decode(document["info"]))
        case "disconnected":
            return Disconnected(document["reason"])
        case "alert":
            return AlertArrived(document["text"])
        case "answer":
            return AnswerArrived(document["about"], decode(document["answer"]))
        case "failed":
            return AnswerFailed(document["about"], document["reason"])
        case "audit":
            return AuditArrived(document["id"], decode(document["lines"]))
        case "action":
            return ActionTaken(
                document["stage"], document["text"], document["who"], document["reason"]
            )
        case unknown:
            raise UnreadableRecordedValue(f"'{unknown}' is a fact that this version does not know")


def _merged(before: tuple[Operation, ...], document: Json) -> tuple[Operation, ...]:
    known = {operation.id: operation for operation in before}
    known |= {operation.id: operation for operation in map(decode, document["changed"])}
    return tuple(known[id] for id in document["order"] if id in known)


def encode_scene(scene: Scene) -> bytes:
    """Everything but the snapshot."""
    return _text(
        {
            "info": encode(scene.info),
            "connection": [scene.connection.state.value, scene.connection.reason],
            "operations": encode(scene.operations),
            "answers": encode(dict(scene.answers)),
            "unanswered": encode(dict(scene.unanswered)),
            "audits": encode(dict(scene.audits)),
        }
    )


def decode_scene(payload: bytes) -> Scene:
    """The opposite of `encode_scene`.

    Raises:
        UnreadableRecordedValue: it is damaged, or was written by a version that knows more.
    """
    document = parsed(payload)
    try:
        state, reason = document["connection"]
        scene = Scene(
            info=decode(document["info"]),
            connection=BackendConnection(ConnectionState(state), reason),
            operations=decode(document["operations"]),
            answers=decode(document["answers"]),
            unanswered=decode(document["unanswered"]),
            audits=decode(document["audits"]),
        )
        check_fields(scene)
        return scene
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableRecordedValue(f"a recorded scene cannot be read: {error!r}") from None


def _text(document: Json) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def parsed(payload: bytes) -> Json:
    """The JSON object of a record.

    Raises:
        UnreadableRecordedValue: the record is not a JSON object.
    """
    try:
        document = read_json(payload, bytes_max=JSON_BYTES_MAX)
    except ValueError as error:
        raise UnreadableRecordedValue(f"a record cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise UnreadableRecordedValue("a record is not a JSON object")
    return document
