"""Brokers to place on, drawn or by hand, and the placers of somebody else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hypothesis import strategies as st

from kshunt.backend.placement.placer import ReplicaPlacer, UsableBroker
from kshunt.backend.placement.placer_calls import PlacementRequest, place_with


def broker(number: int, rack: str | None = None, *, fenced: bool = False) -> UsableBroker:
    return UsableBroker(number, rack, fenced)


def brokers(count: int) -> list[UsableBroker]:
    """Brokers 0, 1, 2 … without racks, all up."""
    return [broker(number) for number in range(count)]


def in_racks(*sizes: int) -> list[UsableBroker]:
    """Brokers 0, 1, 2 …, the first of them in rack `a`, the next in `b`, all up."""
    racks = [chr(ord("a") + index) for index, size in enumerate(sizes) for _ in range(size)]
    return [broker(number, rack) for number, rack in enumerate(racks)]


def racks_of(given: Sequence[UsableBroker], replicas: Sequence[int]) -> list[str | None]:
    by_id = {one.id: one.rack for one in given}
    return [by_id[replica] for replica in replicas]


def ask(
    placer: ReplicaPlacer,
    num_partitions: int,
    num_replicas: int,
    given: Sequence[UsableBroker],
    *,
    topic: str | None = None,
    principal: str | None = None,
    start_partition: int = 0,
) -> list[tuple[int, ...]]:
    """What everybody gets who asks a placer."""
    request = PlacementRequest(
        start_partition, num_partitions, num_replicas, given, topic, principal
    )
    return place_with(placer, "under-test", request)


@st.composite
def clusters(
    draw: st.DrawFn, *, even: bool = False, fences: bool = True, racks: bool | None = None
) -> list[UsableBroker]:
    """Brokers in racks, of one size each if `even`, or without racks; at least one is up."""
    count = draw(st.integers(1, 4))
    size = st.integers(1, 4)
    sizes = [draw(size)] * count if even else draw(st.lists(size, min_size=count, max_size=count))
    total = sum(sizes)
    ids = draw(st.lists(st.integers(0, 1000), min_size=total, max_size=total, unique=True))
    fenced = [fences and draw(st.integers(0, 3)) == 0 for _ in ids]
    fenced[draw(st.integers(0, total - 1))] = False
    with_racks = draw(st.booleans()) if racks is None else racks
    named = [one.rack if with_racks else None for one in in_racks(*sizes)]
    return list(map(UsableBroker, ids, named, fenced))


class Foreign:
    """Somebody's placer: it takes whatever comes first, and can be told to answer anything."""

    def configure(self, configs: Mapping[str, str]) -> None:
        self.configs = configs

    def close(self) -> None:
        """It holds nothing."""

    def place(
        self,
        start_partition: int,
        num_partitions: int,
        num_replicas: int,
        brokers: Iterator[UsableBroker],
    ) -> Sequence[Sequence[int]]:
        ids = [one.id for one in brokers]
        return [ids[:num_replicas] for _ in range(num_partitions)]
