"""How requests are held against the rights of their clients.

Goals
    Each API refuses as Kafka's own does: the request as a whole, or each topic, group or resource
    for itself, with the others answered.
Constraints
    A cluster without an authorizer has nothing of this in its way, and handlers know nothing of
    rights.
Algorithm
    A guard stands before a handler. It takes out of the request what the client may not do, and
    lets the handler answer the rest. It adds the refusals to that answer, in the shape that the
    API's schemas give to errors (`net.errors`). `rights` says which rights each API needs.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.metadata.acls import CLUSTER_NAME, AclOperationCode, ResourceKind
from kshunt.backend.embedded.net.api import KAFKA_APIS, SEED_APIS, WireReply
from kshunt.backend.embedded.net.errors import item_errors
from kshunt.backend.embedded.net.server import Handler, RequestContext
from kshunt.backend.embedded.security.authorizer import Authorizer, Client
from kshunt.backend.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)

_REFUSED: Final = {
    ResourceKind.TOPIC: (TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    ResourceKind.GROUP: (GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    ResourceKind.CLUSTER: (CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    ResourceKind.TRANSACTIONAL_ID: (
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
}
"""What a client is told that may not use a resource of a type."""
_APIS: Final = KAFKA_APIS | SEED_APIS


class Need(NamedTuple):
    """A right that a request needs."""

    operation: AclOperationCode
    kind: ResourceKind
    name: str = CLUSTER_NAME

    @property
    def code(self) -> int:
        """The error of a client that does not have it."""
        return _REFUSED[self.kind][0]

    @property
    def words(self) -> str:
        """What such a client is told."""
        return _REFUSED[self.kind][1]


@dataclass(frozen=True, slots=True)
class Call:
    """One request on its way to its handler."""

    world: World
    authorizer: Authorizer
    context: RequestContext
    message: Any
    handler: Handler

    @property
    def version(self) -> int:
        """The version of the request and of its answer."""
        return self.context.version

    @property
    def response(self) -> Any:
        """The class of the answer."""
        return _APIS[self.context.header.api_key].response

    @property
    def client(self) -> Client:
        """Who asks."""
        return Client(self.context.principal, self.context.peer[0])

    def may(self, *needs: Need) -> bool:
        """Whether the client has these rights."""
        return all(self.authorizer.allows(self.client, *need) for need in needs)

    def check(self, *needs: Need) -> None:
        """Let a request pass whose client has these rights.

        Raises:
            WireReply: it has not; the error is that of the first one missing.
        """
        for need in needs:
            if not self.may(need):
                raise WireReply(need.code, need.words)

    async def forward(self, **fields: Any) -> Any:
        """The handler's answer to the request, or to one with other values in these fields."""
        return await self.handler(self.context, changed(self.message, **fields))

    def decoded(self, reply: Any) -> Any:
        """An answer as a message."""
        if not isinstance(reply, bytes | bytearray):
            return reply
        found = self.response.decode(bytes(reply), version=self.version)
        # kafka-python's decoder leaves this out, which its encoder looks at.
        found._header = None
        return found

    def refusals(self, field: str, entries: Sequence[Any], need: Need) -> tuple[str, list[Any]]:
        """The answer's entries for what is refused, and the name of the array they belong in."""
        refused = changed(self.message, **{field: list(entries)})
        return item_errors(refused, self.response, self.version, need.code, need.words)


Guard: TypeAlias = Callable[[Call], Awaitable[Any]]
Needed: TypeAlias = Callable[[Call, Any], Need | None]
"""The right that an entry of a request needs, or None for one that its handler refuses anyway."""


def changed(message: Any, **fields: Any) -> Any:
    """A message with other values in some fields."""
    made = copy.copy(message)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def whole(*needs: Callable[[Any], Need | None]) -> Guard:
    """Refuses the request as a whole; each `needs` says what a message needs."""

    async def guard(call: Call) -> Any:
        call.check(*(need for one in needs if (need := one(call.message)) is not None))
        return await call.forward()

    return guard


def each(field: str, needed: Needed, *, before: Sequence[Callable[[Any], Need]] = ()) -> Guard:
    """Refuses the entries of one of the request's arrays, each for itself."""

    async def guard(call: Call) -> Any:
        call.check(*(one(call.message) for one in before))
        return await answered_by_entry(call, field, needed)

    return guard


async def answered_by_entry(call: Call, field: str, needed: Needed) -> Any:
    """The handler's answer to what is allowed of an array, with the refusals of the rest."""
    allowed, refused = sorted_out(call, getattr(call.message, field), needed)
    if not refused:
        return await call.forward()
    reply = call.decoded(await call.forward(**{field: allowed}))
    for need, entries in refused.items():
        name, errors = call.refusals(field, entries, need)
        setattr(reply, name, [*getattr(reply, name), *errors])
    return reply


def sorted_out(
    call: Call, entries: Iterable[Any], needed: Needed
) -> tuple[list[Any], Mapping[Need, list[Any]]]:
    """The entries that are allowed, and the others by the right that each lacks.

    Of rights that lack on several resources of one type, the first stands for all.
    """
    allowed: list[Any] = []
    refused: dict[int, tuple[Need, list[Any]]] = {}
    for entry in entries:
        need = needed(call, entry)
        if need is None or call.may(need):
            allowed.append(entry)
        else:
            refused.setdefault(need.code, (need, []))[1].append(entry)
    return allowed, dict(refused.values())


def guarded(
    world: World, handlers: Mapping[int, Handler], guards: Mapping[str, Guard]
) -> dict[int, Handler]:
    """The handlers behind their guards; the same handlers where the cluster has no authorizer."""
    authorizer = world.authorizer
    if authorizer is None:
        return dict(handlers)
    behind: dict[int, Handler] = {}
    for key, handler in handlers.items():
        guard = guards.get(_APIS[key].name)
        behind[key] = handler if guard is None else _behind(world, authorizer, guard, handler)
    return behind


def _behind(world: World, authorizer: Authorizer, guard: Guard, handler: Handler) -> Handler:
    async def answer(context: RequestContext, message: Any) -> Any:
        return await guard(Call(world, authorizer, context, message, handler))

    return answer
