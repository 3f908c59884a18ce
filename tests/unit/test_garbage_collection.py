"""What the process holds is left out of the collections of garbage, and garbage is not."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from kshunt.backend.garbage_collection import COUNTED_EVERY, Heap, kept

pytestmark = pytest.mark.slow


class Node:
    """Refers to itself: nothing but a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def heap() -> Iterator[Heap]:
    heap = Heap(loose_max=1_000_000)
    heap.start()
    yield heap
    heap.stop()
    gc.collect()
    gc.freeze()  # As it was before; see `tests/conftest.py`.


def looked_over() -> set[int]:
    """What the next full collection goes over."""
    return {id(one) for one in gc.get_objects()}


@pytest.mark.usefixtures("heap")
def test_what_outlives_a_full_collection_is_left_out_of_the_next() -> None:
    kept = [Node() for _ in range(1_000)]
    assert looked_over() >= set(map(id, kept))
    gc.collect()
    assert not looked_over() & set(map(id, kept))


@pytest.mark.usefixtures("heap")
def test_what_is_left_out_goes_as_soon_as_nothing_refers_to_it() -> None:
    node = Node()
    gc.collect()
    gone = weakref.ref(node)
    del node.itself
    del node
    assert gone() is None


@pytest.mark.usefixtures("heap")
def test_garbage_in_cycles_goes_with_a_full_collection() -> None:
    gone = weakref.ref(Node())
    gc.collect()
    assert gone() is None


@pytest.fixture
def only_when_asked() -> Iterator[None]:
    """No collection but those of the test: others would be counted too."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("only_when_asked")
def test_garbage_that_was_left_out_goes_once_there_is_very_much_of_it(heap: Heap) -> None:
    heap.stop()
    before = len(gc.get_objects())
    heap = Heap(loose_max=0)
    heap.start()
    nodes = [Node() for _ in range(2 * before)]
    gc.collect()
    gone = weakref.ref(nodes[0])
    nodes.clear()
    gc.collect()
    assert gone() is not None
    # The one after the count is thorough.
    for _ in range(COUNTED_EVERY + 1):
        gc.collect()
    assert gone() is None
    heap.stop()


def test_what_is_made_to_be_kept_is_neither_disturbed_nor_looked_over() -> None:
    collected = sum(generation["collections"] for generation in gc.get_stats())
    with kept():
        nodes = [Node() for _ in range(20_000)]
        now = sum(generation["collections"] for generation in gc.get_stats())
    assert now == collected
    assert gc.isenabled()
    assert not looked_over() & set(map(id, nodes))
    gone = weakref.ref(Node())
    gc.collect()
    assert gone() is None


def test_nothing_is_left_out_after_the_end(heap: Heap) -> None:
    during = gc.get_threshold()
    heap.stop()
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold()[2] > during[2]
