"""What a data pipeline delivered of the scripted cluster, for the dashboard's tests."""

from __future__ import annotations

from typing import Any, TypeVar

from kshunt.backend.domain.pipeline.delivered import (
    BottleneckRow,
    CauseRow,
    EffectRow,
    EtaRow,
    LoadRow,
    PairRow,
    PipelinePast,
    PipelineProcess,
    PipelineState,
    PipelineStatus,
    QualityRow,
    Rows,
    SampleGap,
    SamplesStatus,
    StallRow,
    TableStatus,
    TransferAnswer,
    TransferHistory,
    TransferPoint,
)
from tests.support.tui.backend import ScriptedBackend
from tests.support.tui.cluster import ScriptedCluster

T = TypeVar("T")

MINUTE_MS = 60_000
TABLES = (
    *("rates", "eta", "stalls", "throttle_effect"),
    *("broker_load", "move_pairs", "quality"),
)


def pipeline_status(now_ms: int, **others: Any) -> PipelineStatus:
    """A pipeline that keeps up with its samples."""
    tables = tuple(TableStatus(name, now_ms - 4_000, "stream", now_ms - 3_000) for name in TABLES)
    said: dict[str, Any] = {
        "state": PipelineState.RUNNING,
        "folder": "/var/lib/kshunt/samples/results",
        "newest_ms": now_ms - 4_000,
        "behind_s": 4.0,
        "process": PipelineProcess(True, now_ms - 3_600_000),
        "samples": SamplesStatus(now_ms - 1_000),
        "tables": tables,
    }
    return PipelineStatus(**{**said, **others})


def gap(now_ms: int) -> SampleGap:
    """Samples that a crash cost, half an hour ago."""
    text = "The recorder was killed; samples of up to 9 s may lack."
    return SampleGap(now_ms - 31 * MINUTE_MS, now_ms - 30 * MINUTE_MS, text)


def deliver(backend: ScriptedBackend, now_ms: int) -> None:
    """Have the backend say that the pipeline keeps up, and all that it made."""
    backend.pipeline = pipeline_status(now_ms)
    backend.delivered = results(now_ms, tuple(backend.cluster.operations))


def results(now_ms: int, operations: tuple[str, ...]) -> dict[str, Any]:
    """All that it made, by the names of the answers."""
    of = {name: pipeline_status(now_ms).of(name) for name in TABLES}
    return {
        "course": TransferAnswer(of["rates"], transfer_history(now_ms)),
        "eta": Rows(of["eta"], tuple(eta(id, now_ms) for id in operations)),
        "stalls": Rows(of["stalls"], stalls(now_ms), since_ms=now_ms - 86_400_000),
        "causes": Rows(
            of["stalls"],
            (
                CauseRow("throttle_too_low", 9, 1, 3, 1_260.0, 720.0),
                CauseRow("broker_down", 5, 0, 5, 150.0, 30.0),
            ),
        ),
        "bottlenecks": Rows(
            of["eta"],
            (
                BottleneckRow(
                    "leader throttle of broker 4", 4_800.0, 2, now_ms - 86_000_000, now_ms
                ),
                BottleneckRow("broker 3 sending", 1_200.0, 1, now_ms - 9_000_000, now_ms),
            ),
        ),
        "load": Rows(of["broker_load"], loads(now_ms)),
        "throttles": Rows(of["throttle_effect"], effects(now_ms)),
        "pairs": Rows(
            of["move_pairs"],
            (
                PairRow(4, 2, True, 240, 12_400_000_000, 8.1e6, 15.2e6, 22.4e6),
                PairRow(1, 5, False, 60, 2_100_000_000, 30.5e6, 41.7e6, 62.0e6),
            ),
        ),
        "quality": Rows(
            of["quality"],
            (QualityRow("replicas", "unique", "dropped", 12, 1_203_455, "one row a moment"),),
        ),
    }


def pipeline_past(now_ms: int, **others: Any) -> PipelinePast:
    """What a history shows of it, with `others` in the places of these names."""
    made = results(now_ms, ("op-1",))
    said: dict[str, Any] = {
        "course": made["course"],
        "etas": made["eta"],
        "stalls": made["stalls"],
        "causes": made["causes"],
        "bottlenecks": made["bottlenecks"],
        "loads": made["load"],
        "pairs": made["pairs"],
        "quality": made["quality"],
    }
    return PipelinePast(**{**said, **others})


def eta(operation_id: str, now_ms: int, **others: Any) -> EtaRow:
    """A forecast of an operation, 4 s old."""
    said: dict[str, Any] = {
        "copies": 6,
        "remaining_bytes": 45_700_000_000,
        "rate_bytes_per_s": 68.5e6,
        "stage": 0.1,
        "throttled": True,
        "bound": "leader throttle of broker 4",
        "p10_s": 724.0,
        "p50_s": 1_144.0,
        "p90_s": 1_864.0,
    }
    return EtaRow(now_ms - 4_000, operation_id, **{**said, **others})


def transfer_history(now_ms: int) -> TransferHistory:
    """Two moves, of which the second is still under way."""
    step_ms = 15 * MINUTE_MS
    last = now_ms // step_ms
    points = [
        TransferPoint(at * step_ms, 4e11 - (at - last + 150) * 2e9, 6e7 + at % 7 * 2e6, 6.0)
        for at in range(last - 200, last + 1)
        if not last - 120 < at < last - 60
    ]
    return TransferHistory(tuple(points), 900.0)


def stalls(now_ms: int) -> tuple[StallRow, ...]:
    """One stall that lasts, and one that has ended."""
    return (
        StallRow(
            *(now_ms - 12 * MINUTE_MS, now_ms - 4_000, 716.0, True, "orders", 2, 3, 4),
            cause="throttle_too_low",
            operation_id="op-1",
        ),
        StallRow(
            *(now_ms - 200 * MINUTE_MS, now_ms - 190 * MINUTE_MS, 600.0, False),
            *("payments", 0, 3, 1),
            cause="broker_down",
        ),
    )


def loads(now_ms: int) -> tuple[LoadRow, ...]:
    """Five brokers, of which one fills up."""

    def load(broker: int, used: float, growth: float, full_in_s: float | None) -> LoadRow:
        total = 2_000_000_000_000
        return LoadRow(
            *(broker, now_ms - 30 * MINUTE_MS, now_ms - 4_000),
            in_bytes_per_s=24e6 if broker in (2, 3, 5) else 0.0,
            out_bytes_per_s=46e6 if broker == 4 else 7.5e6,
            leader_share=0.2,
            disk_total_bytes=total,
            disk_used_bytes=round(total * used),
            disk_free_bytes=round(total * (1 - used)),
            growth_bytes_per_s=growth,
            growth_span_s=86_400.0,
            full_in_s=full_in_s,
        )

    return (
        load(1, 0.41, -1.2e6, None),
        load(2, 0.87, 1.9e6, 136_842.0),
        load(3, 0.62, 0.9e6, 844_444.0),
        load(4, 0.55, -2.0e6, None),
        load(5, 0.58, 0.2e6, 4_200_000.0),
    )


def effects(now_ms: int) -> tuple[EffectRow, ...]:
    """A throttle that binds, and one that is right."""
    return (
        EffectRow(
            *(4, "leader", now_ms - 5 * MINUTE_MS, now_ms - 4_000, 50_000_000, 3),
            *("raise", 75_000_000),
            "the throttle is the limit, and steady followers keep up",
            achieved_bytes_per_s=48.9e6,
            share_used=0.98,
        ),
        EffectRow(
            *(2, "follower", now_ms - 5 * MINUTE_MS, now_ms - 4_000, 25_000_000, 2),
            *("keep", 25_000_000),
            "the sources are the limit",
            achieved_bytes_per_s=12.0e6,
            share_used=0.48,
        ),
    )


def now_of(cluster: ScriptedCluster) -> int:
    """The scripted cluster's time."""
    return cluster.now_ms
