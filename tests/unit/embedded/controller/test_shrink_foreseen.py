"""What is foreseen of a request to delete partitions is what the controller then answers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kshunt.backend.admin.kips.partition_deletion import Partitions, Shrink, decided
from kshunt.backend.domain.cluster.partition_modes import PartitionMode
from kshunt.backend.domain.shrink.delete_partitions import DeletePartitions
from kshunt.backend.embedded.controller.reassign import alter_partition_reassignments
from kshunt.backend.embedded.controller.shrink import delete_partitions, finish_replica_deletion
from kshunt.backend.embedded.controller.tick import tick
from kshunt.backend.embedded.metadata.records import ResourceType
from tests.support.embedded.controller import Controller, tp

COUNT = 5
steps = st.one_of(
    st.tuples(st.just("shrink"), st.integers(-1, COUNT + 1), st.sampled_from([0, 500, 90_000])),
    st.tuples(st.just("move"), st.integers(0, COUNT - 1), st.integers(1, 4)),
    st.tuples(st.just("pass"), st.integers(1, 5), st.just(0)),
    st.tuples(st.just("deleted"), st.integers(0, COUNT - 1), st.integers(1, 2)),
)


def present(controller: Controller) -> Partitions:
    partitions = controller.image.topics["t"].partitions
    return Partitions(
        {n: PartitionMode(int(one.mode)) for n, one in partitions.items()},
        {n for n, one in partitions.items() if one.reassigning},
    )


@given(st.lists(steps, max_size=12))
def test_what_is_foreseen_is_what_is_answered(asked: list[tuple[str, int, int]]) -> None:
    controller, now_ms = Controller(), 0
    controller.create("t", *[[1, 2]] * COUNT)
    controller.set(ResourceType.BROKER, "", delete_topic_partition_enable="true")
    for name, first, second in asked:
        image = controller.image
        match name:
            case "move":
                controller.do(alter_partition_reassignments(image, {tp("t", first): [second]}))
            case "pass":
                now_ms += first * 60_000
                controller.do(tick(image, now_ms))
            case "deleted":
                item = tp("t", first)
                controller.do(finish_replica_deletion(image, item, second, now_ms, deleted=True))
            case _:
                foreseen = decided(
                    "t", DeletePartitions(first, second), present(controller), now_ms
                )
                answer = delete_partitions(image, {"t": first}, now_ms, delay_ms=second)
                found = {
                    one.item: (one.status_code, int(one.error), one.message)
                    for one in answer.results
                }
                if isinstance(foreseen, Shrink):
                    said = foreseen.results("t")
                    assert {p: (int(one.mode), 0, None) for p, one in said.items()} == found
                else:
                    ((_, code, _),) = found.values()
                    assert foreseen[1].error_code == code
                controller.do(answer)
