"""A placer of one's own in ten lines: leaders in one rack, whatever the other racks hold."""

from collections.abc import Iterator, Mapping

from kshunt.placement import UsableBroker


class RackFirst:
    ignores_racks = True

    def configure(self, configs: Mapping[str, str]) -> None:
        self.rack = configs.get("rack.first")

    def close(self) -> None:
        pass

    def place(
        self, start: int, partitions: int, replicas: int, brokers: Iterator[UsableBroker]
    ) -> list[list[int]]:
        usable = sorted(brokers, key=lambda one: (one.fenced, one.rack != self.rack, one.id))
        return [[one.id for one in usable[:replicas]] for _ in range(partitions)]
