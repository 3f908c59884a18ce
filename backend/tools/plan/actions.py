"""What each goal and action of `kshunt plan` does, and what it has to say."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kshunt.backend.clock import Clock
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.work_progress import WorkProgress
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan, parse_plan, rollback_path
from kshunt.backend.domain.untrusted.json_codec import to_document
from kshunt.backend.errors import WrongCluster
from kshunt.backend.tools.plan.options import (
    PlanAction,
    PlanOptions,
)
from kshunt.backend.tools.shared.console import (
    parsed_file,
    show,
)
from kshunt.backend.tools.shared.new_files import check_target, write_file
from kshunt.backend.tools.shared.output import ToolReport

if TYPE_CHECKING:
    from kshunt.backend.domain.planning.requests import PlanAnswer, RehearsalAnswer
    from kshunt.backend.domain.replicas.snapshot import Snapshot
    from kshunt.backend.rehearsal.picture import Picture

LEARNING_S: Final = 30.0
"""The longest time to watch the cluster for the sizes and write rates of its partitions."""


def report_of(options: PlanOptions, clock: Clock) -> ToolReport:
    """Do what is asked for."""
    for path in _targets(options):
        check_target(path)
    return _report(options, _picture(options), clock)


def _targets(options: PlanOptions) -> list[Path]:
    if options.out is None:
        return []
    return [options.out] if options.request is None else [options.out, rollback_path(options.out)]


# The cluster


def _picture(options: PlanOptions) -> Picture:
    from kshunt.backend.rehearsal.picture import Capacity, picture_of
    from kshunt.backend.rehearsal.picture_files import load_picture

    if options.picture is not None:
        picture = load_picture(options.picture)
    else:
        picture = picture_of(_snapshot(options))
    if options.network_bytes_per_s is None and options.disk_bytes_per_s is None:
        return picture
    network = options.network_bytes_per_s
    capacity = Capacity(network, network, options.disk_bytes_per_s)
    return replace(picture, capacities=dict.fromkeys(picture.situation.brokers, capacity))


def _snapshot(options: PlanOptions) -> Snapshot:
    """The cluster as a backend sees it, watched for a while where rates matter.

    Raises:
        BackendUnreachable: no backend could be reached or started.
    """
    from kshunt.backend.api.client.backend_client import BackendClient

    address = options.backend
    if not address:
        from kshunt.backend.tools.shared.private_backend import private_backend

        address = private_backend(options.bootstrap_servers, options.command_config)
    until_s = time.monotonic() + LEARNING_S
    with BackendClient(address) as client:
        snapshots = client.snapshots()
        snapshot = next(snapshots)
        if not _known(snapshot, rates=options.needs_rates):
            what = "sizes and write rates" if options.needs_rates else "sizes"
            show(f"Watching the cluster, to learn its partitions' {what} ...", sys.stderr)
            with WorkProgress(f"Watching, for at most {LEARNING_S:.0f}s", sys.stderr):
                for snapshot in snapshots:
                    if _known(snapshot, rates=options.needs_rates) or time.monotonic() > until_s:
                        break
        snapshots.close()
    return snapshot


def _known(snapshot: Snapshot, *, rates: bool) -> bool:
    """Whether it is known of every partition with a leader how large it is; with `rates`, also
    what is written to it."""
    import numpy as np

    from kshunt.backend.domain.cluster.metadata import NO_BROKER

    rows = snapshot.replicas
    leads = (rows.broker == rows.leader) & (rows.leader != NO_BROKER)
    sized = bool((rows.size_bytes[leads] >= 0).all())
    return sized and not (rates and bool(np.isnan(rows.fetched_bytes_per_s[leads]).any()))


# What is done


def _report(options: PlanOptions, picture: Picture, clock: Clock) -> ToolReport:
    if options.action is PlanAction.PICTURE:
        return _save_picture(options, picture)
    if options.action is PlanAction.REHEARSE:
        return _rehearse(options, picture, clock)
    if options.action is PlanAction.SHOW:
        return _show(options, picture, clock)
    return _plan(options, picture, clock)


def _save_picture(options: PlanOptions, picture: Picture) -> ToolReport:
    from kshunt.backend.rehearsal.picture_files import save_picture

    assert options.out is not None
    save_picture(picture, options.out)
    partitions, brokers = len(picture.situation), len(picture.situation.brokers)
    words = f"{partitions:,} partitions on {brokers:,} brokers saved to {options.out}."
    return ToolReport(words, {"picture": str(options.out), "partitions": partitions})


def _plan(options: PlanOptions, picture: Picture, clock: Clock) -> ToolReport:
    from kshunt.backend.api.schema.plans import PlanProposal
    from kshunt.backend.planning.propose import propose
    from kshunt.backend.tools.plan.reports import plan_lines

    assert options.request is not None
    with WorkProgress("Planning", sys.stderr):
        answer = propose(picture, options.request)
    lines = list(plan_lines(answer))
    document = to_document(PlanProposal.of(answer))
    targets = answer.proposal.targets
    if targets and options.rehearses:
        lines += ["", *_rehearsed(options, picture, {"": targets}, clock, document)]
    is_moving = bool(picture.situation.moving)
    lines += ["", *_written(options, answer, document, is_moving=is_moving)]
    partly = answer.proposal.measure.after > 0 and answer.proposal.notes
    code = ExitCode.UNFINISHED if partly else ExitCode.DONE
    return ToolReport("\n".join(lines).rstrip(), document, code)


def _written(
    options: PlanOptions, answer: PlanAnswer, document: dict[str, Any], *, is_moving: bool
) -> Iterator[str]:
    """Write the files; what was written, and what to do with it."""
    if not answer.proposal.targets:
        if options.out is not None:
            yield f"{options.out} was not written: there is nothing to change."
        return
    if options.out is None:
        yield "Nothing was written; --out FILE writes the plan and its rollback."
        return
    rollback = rollback_path(options.out)
    write_file(rollback, f"{answer.rollback_json}\n")
    write_file(options.out, f"{answer.plan_json}\n")
    document["files"] = {"plan": str(options.out), "rollback": str(rollback)}
    yield f"Wrote {options.out}, and its rollback {rollback}. Nothing was changed. Start it:"
    where = options.bootstrap_servers or "HOST:PORT"
    at = f"--backend {options.backend}" if options.backend else f"--bootstrap-server {where}"
    if options.command_config is not None:
        at += f" --command-config {options.command_config}"
    words = [
        at,
        f"--reassignment-json-file {options.out}",
        _throttle_flags(options, answer, document),
    ]
    # Kafka's tool starts nothing next to other moves without it.
    words += ["--execute", "--additional" if is_moving else ""]
    yield f"  kshunt kafka-reassign-partitions {' '.join(filter(None, words))}"


def _throttle_flags(options: PlanOptions, answer: PlanAnswer, document: dict[str, Any]) -> str:
    """The throttle and the deadline that it keeps; `BYTES` if several or none were asked for.

    A plan that copies nothing needs none.
    """
    cost = answer.proposal.cost
    if not (cost.moved_replicas or cost.log_dir_replicas):
        return ""
    found = document.get("rehearsed", [{}])[0].get("deadline")
    if found is None or found["throttle_bytes_per_s"] is None:
        known = len(options.throttles) == 1 and options.throttles[0] is not None
        return f"--throttle {options.throttles[0] if known else 'BYTES'}"
    by = time.strftime("%Y-%m-%dT%H:%M", time.localtime(found["at_ms"] / 1000))
    return f"--throttle {found['throttle_bytes_per_s']} --deadline {by}"


def _show(options: PlanOptions, picture: Picture, clock: Clock) -> ToolReport:
    from kshunt.backend.placement.impact import impact
    from kshunt.backend.tools.plan.reports import impact_lines

    name = options.files[0]
    plan = _loaded(name, picture)
    found = impact(picture.situation, plan.replicas)
    lines = [f"{name}: its effect on the cluster as it is.", "", *impact_lines(found)]
    document: dict[str, Any] = {"plan": name, "impact": to_document(found)}
    if options.rehearses:
        lines += ["", *_rehearsed(options, picture, {"": plan.replicas}, clock, document)]
    return ToolReport("\n".join(lines), document)


def _rehearse(options: PlanOptions, picture: Picture, clock: Clock) -> ToolReport:
    one = len(options.files) == 1
    plans = {"" if one else name: _loaded(name, picture).replicas for name in options.files}
    document: dict[str, Any] = {}
    return ToolReport("\n".join(_rehearsed(options, picture, plans, clock, document)), document)


def _loaded(name: str, picture: Picture) -> ReassignmentPlan:
    """A plan from a file, for this cluster.

    Raises:
        BadInput: it cannot be read.
        PlanError: it is no plan, or it has no partitions.
        WrongCluster: it says that it is for another cluster.
    """
    plan = parsed_file(name, parse_plan)
    if plan.cluster_id is not None and plan.cluster_id != picture.cluster_id:
        raise WrongCluster(
            f"{name} is for cluster {plan.cluster_id}, but this is {picture.cluster_id}.",
            advice="Nothing was rehearsed.",
        )
    return plan


def _rehearsed(
    options: PlanOptions,
    picture: Picture,
    plans: Mapping[str, Mapping[Any, tuple[int, ...]]],
    clock: Clock,
    document: dict[str, Any],
) -> Iterator[str]:
    """Rehearse plans by their names; the lines about them. `document` gets what they came to."""
    from kshunt.backend.api.schema.plans import Rehearsals
    from kshunt.backend.domain.planning.requests import RehearsalRequest
    from kshunt.backend.planning.rehearsals import rehearse_all
    from kshunt.backend.tools.plan.reports import deadline_lines, rehearsal_lines

    answers: dict[str, RehearsalAnswer] = {}
    # The throttle of a deadline is rehearsed as well, if it is another one.
    runs = len(options.throttles) + (options.deadline_ms is not None)
    for name, targets in plans.items():
        request = RehearsalRequest(
            targets, options.throttles, options.deadline_ms, options.quick, options.seed
        )
        what = f"Rehearsing {name}".rstrip()
        with WorkProgress(what, sys.stderr) as progress:

            def on_step(done: int, share: float) -> None:
                progress.is_at((done + share) / runs, f"throttle {done + 1} of {runs}")

            answers[name] = rehearse_all(picture, request, clock, on_step)
    document["rehearsed"] = [
        {"plan": name or (options.files[0] if options.files else "")}
        | to_document(Rehearsals.of(answer))
        for name, answer in answers.items()
    ]
    now_ms = clock.now_ms()
    named = [(os.path.basename(name), answer) for name, answer in answers.items()]
    yield from rehearsal_lines(named, now_ms)
    for name, answer in named:
        if answer.deadline is not None:
            yield from filter(None, ["", f"{name}:" if name else ""])
            forecast = answer.forecast_of(answer.deadline.throttle_bytes_per_s)
            yield from deadline_lines(answer.deadline, forecast, now_ms)
