"""A question of an operator, handed to the planner that answers it; nothing leaves unchecked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from kshunt.backend.domain.planning.goals import Goal
from kshunt.backend.domain.planning.proposal import PlanNote, Proposal
from kshunt.backend.domain.planning.requests import PlanAnswer, PlanRequest
from kshunt.backend.domain.reassignment.left_out import left_out_notes
from kshunt.backend.placement.impact import impact
from kshunt.backend.placement.plans.check import check_proposal
from kshunt.backend.placement.plans.drain import drain
from kshunt.backend.placement.plans.expand import expand
from kshunt.backend.placement.plans.leaders import balance_leaders
from kshunt.backend.placement.plans.log_dirs import move_log_dirs
from kshunt.backend.placement.plans.racks import repair_racks
from kshunt.backend.placement.plans.rebalance import rebalance
from kshunt.backend.placement.plans.replace import replace
from kshunt.backend.placement.plans.replication import set_replication_factor
from kshunt.backend.placement.plans.scope import Scope
from kshunt.backend.placement.plans.situation import Situation
from kshunt.backend.rehearsal.picture import Picture


def propose(picture: Picture, request: PlanRequest) -> PlanAnswer:
    """A plan for the goal, with what it does to each broker.

    Raises:
        BadInput: the goal names what is not there.
        PlanError: the planner's answer breaks a rule, which is a defect; it is not to be used.
    """
    scope = Scope(
        request.topics,
        request.exclude,
        request.disk_fraction,
        request.keep_racks,
        request.seed,
    )
    proposal = _PLANNERS[request.goal](picture.situation, request, scope)
    notes = (*proposal.notes, *_left_out(proposal, picture.situation, scope))
    proposal = dataclasses.replace(proposal, notes=notes)
    factor_stays = request.goal is not Goal.REPLICATION_FACTOR
    check_proposal(proposal, picture.situation, scope, factor_stays=factor_stays)
    return PlanAnswer(
        proposal,
        impact(picture.situation, proposal.targets, request.caps),
        picture.cluster_id,
        picture.taken_ms,
    )


def _left_out(proposal: Proposal, situation: Situation, scope: Scope) -> Iterator[PlanNote]:
    """Partitions that are about to be deleted, by mode; those that a note names are left out."""
    named = {note.partition for note in proposal.notes}
    chosen = [p for p in sorted(situation.leaving) if p not in named and scope.selects(p.topic)]
    for words in left_out_notes({p: situation.leaving[p] for p in chosen}):
        yield PlanNote(words, "")


def _drain(situation: Situation, request: PlanRequest, scope: Scope) -> Proposal:
    return drain(situation, request.brokers, scope)


def _expand(situation: Situation, request: PlanRequest, scope: Scope) -> Proposal:
    return expand(situation, request.brokers, request.by, scope)


def _factor(situation: Situation, request: PlanRequest, scope: Scope) -> Proposal:
    return set_replication_factor(situation, request.factors, scope)


def _rebalance(situation: Situation, request: PlanRequest, scope: Scope) -> Proposal:
    return rebalance(
        situation,
        request.by,
        tolerance=request.tolerance,
        max_moved_bytes=request.max_moved_bytes,
        scope=scope,
    )


def _leaders(situation: Situation, request: PlanRequest, scope: Scope) -> Proposal:
    return balance_leaders(situation, tolerance=request.tolerance, scope=scope)


def _racks(situation: Situation, request: PlanRequest, scope: Scope) -> Proposal:
    return repair_racks(situation, scope)


def _replace(situation: Situation, request: PlanRequest, scope: Scope) -> Proposal:
    old, new = request.brokers
    return replace(situation, old, new, scope)


def _log_dirs(situation: Situation, request: PlanRequest, scope: Scope) -> Proposal:
    return move_log_dirs(
        situation,
        request.brokers[0],
        empty=request.directories,
        tolerance=request.tolerance,
        scope=scope,
    )


_PLANNERS: Final[Mapping[Goal, Callable[[Situation, PlanRequest, Scope], Proposal]]] = {
    Goal.DRAIN: _drain,
    Goal.EXPAND: _expand,
    Goal.REPLICATION_FACTOR: _factor,
    Goal.REBALANCE: _rebalance,
    Goal.LEADERS: _leaders,
    Goal.RACK_REPAIR: _racks,
    Goal.REPLACE: _replace,
    Goal.MOVE_LOG_DIRS: _log_dirs,
}
