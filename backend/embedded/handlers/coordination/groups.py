"""Consumer groups on the wire: coordinators, membership, and what operators ask about groups."""

from __future__ import annotations

from typing import Any, Final

from kshunt.backend.embedded.coordinator.codes import CoordinatorCode
from kshunt.backend.embedded.coordinator.group_coordinator import GroupCoordinator
from kshunt.backend.embedded.coordinator.members import (
    Committer,
    GroupDescription,
    GroupState,
    JoinAnswer,
    JoinRequest,
    SyncRequest,
)
from kshunt.backend.embedded.core.world import World
from kshunt.backend.embedded.handlers.coordination import group_offsets
from kshunt.backend.embedded.handlers.coordination.coordinator_lookup import (
    check_coordinator,
    coordinates,
    coordinator_for,
    ticket_answer,
)
from kshunt.backend.embedded.handlers.responses import response
from kshunt.backend.embedded.net.api import KAFKA_APIS, WireReply
from kshunt.backend.embedded.net.server import Handler, RequestContext
from kshunt.backend.wire.api_keys import (
    DELETE_GROUPS_KEY,
    DESCRIBE_GROUPS_KEY,
    FIND_COORDINATOR_KEY,
    HEARTBEAT_KEY,
    JOIN_GROUP_KEY,
    LEAVE_GROUP_KEY,
    LIST_GROUPS_KEY,
    SYNC_GROUP_KEY,
)

GROUP_OPERATIONS: Final = frozenset({3, 6, 8, 10, 11})
"""What anybody may do with a group where nobody authorizes: codes of `AclOperation`."""
CLASSIC: Final = "classic"
"""The type of every group here (KIP-848 has others)."""

_KEY_TYPES: Final = (0, 1)
"""FindCoordinator: a group, or a transactional id."""
KEYS_FROM: Final = 4
_KNOWN_ID_FROM: Final = 4
_BATCHED_LEAVE_FROM: Final = 3
_NULL_PROTOCOL_FROM: Final = 7
_NAMED_SYNC_FROM: Final = 5
_SKIP_ASSIGNMENT_FROM: Final = 9
_NOT_FOUND_FROM: Final = 6


def handlers(world: World, coordinator: GroupCoordinator) -> dict[int, Handler]:
    """The handlers by API key."""
    own = _GroupHandlers(world, coordinator)
    return {
        FIND_COORDINATOR_KEY: own.find_coordinator,
        JOIN_GROUP_KEY: own.join,
        HEARTBEAT_KEY: own.heartbeat,
        LEAVE_GROUP_KEY: own.leave,
        SYNC_GROUP_KEY: own.sync,
        DESCRIBE_GROUPS_KEY: own.describe,
        LIST_GROUPS_KEY: own.list,
        DELETE_GROUPS_KEY: own.delete,
        **group_offsets.handlers(world, coordinator),
    }


class _GroupHandlers:
    def __init__(self, world: World, coordinator: GroupCoordinator) -> None:
        self._world = world
        self._coordinator = coordinator

    def _now_s(self) -> float:
        return self._world.clock.monotonic_s()

    # --- coordinators

    async def find_coordinator(self, context: RequestContext, message: Any) -> Any:
        """Any broker knows who coordinates a key."""
        if context.version < KEYS_FROM:
            found = self._found(message.key, message.key_type or 0)
            return response(FIND_COORDINATOR_KEY, context.version, **found)
        entry = KAFKA_APIS[FIND_COORDINATOR_KEY].response.Coordinator
        answers = [
            entry(version=context.version, key=key, **self._found(key, message.key_type))
            for key in message.coordinator_keys
        ]
        return response(FIND_COORDINATOR_KEY, context.version, coordinators=answers)

    def _found(self, key: str, key_type: int) -> dict[str, Any]:
        if key_type not in _KEY_TYPES:
            return _no_coordinator(CoordinatorCode.INVALID_REQUEST)
        broker = coordinator_for(self._world, key)
        if broker is None:
            return _no_coordinator(CoordinatorCode.COORDINATOR_NOT_AVAILABLE)
        state = self._world.core.image.brokers[broker]
        return {"node_id": broker, "host": state.host, "port": state.port, "error_message": ""}

    # --- membership

    async def join(self, context: RequestContext, message: Any) -> Any:
        """Answered when the group's next generation begins, or immediately."""
        check_coordinator(self._world, context, message.group_id)
        request = _join_request(context, message)
        ticket = self._coordinator.join(message.group_id, request, self._now_s())
        self._world.changed()
        tick = self._coordinator.tick
        answer = await ticket_answer(self._world, context, message.group_id, ticket, tick)
        return _joined(context.version, answer)

    async def sync(self, context: RequestContext, message: Any) -> Any:
        """Answered when the group's leader has assigned."""
        check_coordinator(self._world, context, message.group_id)
        named = message.protocol_type is not None and message.protocol_name is not None
        if context.version >= _NAMED_SYNC_FROM and not named:
            raise WireReply(CoordinatorCode.INCONSISTENT_GROUP_PROTOCOL)
        request = SyncRequest(
            message.member_id,
            message.generation_id,
            message.group_instance_id,
            message.protocol_type,
            message.protocol_name,
            tuple((one.member_id, bytes(one.assignment)) for one in message.assignments),
        )
        ticket = self._coordinator.sync(message.group_id, request, self._now_s())
        self._world.changed()
        tick = self._coordinator.tick
        answer = await ticket_answer(self._world, context, message.group_id, ticket, tick)
        return response(
            SYNC_GROUP_KEY,
            context.version,
            error_code=answer.code,
            assignment=answer.assignment,
            protocol_type=answer.protocol_type,
            protocol_name=answer.protocol,
        )

    async def heartbeat(self, context: RequestContext, message: Any) -> Any:
        """Tells a member whether it has to join again."""
        check_coordinator(self._world, context, message.group_id)
        who = Committer(message.member_id, message.generation_id, message.group_instance_id)
        code = self._coordinator.heartbeat(message.group_id, who, self._now_s())
        return response(HEARTBEAT_KEY, context.version, error_code=code)

    async def leave(self, context: RequestContext, message: Any) -> Any:
        """One member goes; from version 3 on several, each with a result of its own."""
        check_coordinator(self._world, context, message.group_id)
        version = context.version
        if version < _BATCHED_LEAVE_FROM:
            code = self._leave(message.group_id, Committer(message.member_id))
            return response(LEAVE_GROUP_KEY, version, error_code=code)
        entry = KAFKA_APIS[LEAVE_GROUP_KEY].response.MemberResponse
        left = [
            entry(
                version=version,
                member_id=one.member_id,
                group_instance_id=one.group_instance_id,
                error_code=self._leave(
                    message.group_id, Committer(one.member_id, -1, one.group_instance_id)
                ),
            )
            for one in message.members
        ]
        return response(LEAVE_GROUP_KEY, version, members=left)

    def _leave(self, group_id: str, who: Committer) -> CoordinatorCode:
        code = self._coordinator.leave(group_id, who, self._now_s())
        self._world.changed()
        return code

    # --- operators

    async def describe(self, context: RequestContext, message: Any) -> Any:
        """Groups with their members; one that is not there is dead."""
        operations = GROUP_OPERATIONS if message.include_authorized_operations else None
        groups = [self._described(context, group, operations) for group in message.groups]
        return response(DESCRIBE_GROUPS_KEY, context.version, groups=groups)

    def _described(
        self, context: RequestContext, group_id: str, operations: frozenset[int] | None
    ) -> Any:
        entry = KAFKA_APIS[DESCRIBE_GROUPS_KEY].response.DescribedGroup
        version = context.version
        if not coordinates(self._world, context, group_id):
            return entry(
                version=version, group_id=group_id, error_code=CoordinatorCode.NOT_COORDINATOR
            )
        if not group_id:
            return entry(
                version=version, group_id=group_id, error_code=CoordinatorCode.INVALID_GROUP_ID
            )
        group = self._coordinator.described(group_id)
        found = entry(version=version, group_id=group_id, authorized_operations=operations)
        if group is not None:
            return _filled(found, group, version)
        found.group_state = GroupState.DEAD.value
        if version >= _NOT_FOUND_FROM:
            found.error_code = CoordinatorCode.GROUP_ID_NOT_FOUND
            found.error_message = f"Group {group_id} not found."
        return found

    async def list(self, context: RequestContext, message: Any) -> Any:
        """The groups that this broker coordinates."""
        entry = KAFKA_APIS[LIST_GROUPS_KEY].response.ListedGroup
        states = {state.lower() for state in message.states_filter or ()}
        types = {kind.lower() for kind in message.types_filter or ()}
        listed = []
        for group_id in self._coordinator.group_ids():
            group = self._coordinator.described(group_id)
            if group is None or not coordinates(self._world, context, group_id):
                continue
            if (states and group.state.lower() not in states) or (types and CLASSIC not in types):
                continue
            one = entry(version=context.version, group_id=group_id, group_type=CLASSIC)
            one.protocol_type, one.group_state = group.protocol_type, group.state.value
            listed.append(one)
        return response(LIST_GROUPS_KEY, context.version, groups=listed)

    async def delete(self, context: RequestContext, message: Any) -> Any:
        """Delete groups without members."""
        entry = KAFKA_APIS[DELETE_GROUPS_KEY].response.DeletableGroupResult
        results = []
        for group_id in message.groups_names:
            mine = coordinates(self._world, context, group_id)
            code = self._coordinator.delete(group_id) if mine else CoordinatorCode.NOT_COORDINATOR
            results.append(entry(version=context.version, group_id=group_id, error_code=code))
        self._world.changed()
        return response(DELETE_GROUPS_KEY, context.version, results=results)


def _no_coordinator(code: CoordinatorCode) -> dict[str, Any]:
    return {"error_code": code, "error_message": code.name, "node_id": -1, "host": "", "port": -1}


def _join_request(context: RequestContext, message: Any) -> JoinRequest:
    session_ms = message.session_timeout_ms
    rebalance_ms = message.rebalance_timeout_ms if context.version >= 1 else session_ms
    return JoinRequest(
        message.member_id,
        tuple((one.name, bytes(one.metadata)) for one in message.protocols),
        message.protocol_type,
        message.group_instance_id,
        context.header.client_id or "",
        f"/{context.peer[0]}",
        session_ms / 1000,
        rebalance_ms / 1000,
        needs_known_id=context.version >= _KNOWN_ID_FROM,
        can_skip_assignment=context.version >= _SKIP_ASSIGNMENT_FROM,
    )


def _joined(version: int, answer: JoinAnswer) -> Any:
    entry = KAFKA_APIS[JOIN_GROUP_KEY].response.JoinGroupResponseMember
    protocol = answer.protocol
    return response(
        JOIN_GROUP_KEY,
        version,
        error_code=answer.code,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=protocol if version >= _NULL_PROTOCOL_FROM else protocol or "",
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            entry(
                version=version,
                member_id=one.member_id,
                group_instance_id=one.instance_id,
                metadata=one.metadata,
            )
            for one in answer.members
        ],
    )


def _filled(found: Any, group: GroupDescription, version: int) -> Any:
    entry = KAFKA_APIS[DESCRIBE_GROUPS_KEY].response.DescribedGroup.DescribedGroupMember
    found.group_state = group.state.value
    found.protocol_type, found.protocol_data = group.protocol_type, group.protocol
    found.members = [
        entry(
            version=version,
            member_id=one.member_id,
            group_instance_id=one.instance_id,
            client_id=one.client_id,
            client_host=one.client_host,
            member_metadata=one.metadata,
            member_assignment=one.assignment,
        )
        for one in group.members
    ]
    return found
