"""Which broker coordinates a group or a transactional id.

Kafka hashes the key onto the 50 partitions of `__consumer_offsets` or `__transaction_state`, and
the leader of that partition coordinates it. Here each such partition prefers the registered
brokers in an order of its own, and the first of them that runs is its leader. So a broker that
goes takes only its own keys with it, and gets them back when it returns.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

PARTITIONS: Final = 50
"""Kafka's default of offsets.topic.num.partitions and transaction.state.log.num.partitions."""


def coordinator_of(key: str, registered: Sequence[int], live: Collection[int]) -> int | None:
    """The broker that coordinates a key, or None while none of the registered ones is live."""
    order = sorted(registered)
    if not order:
        return None
    first = (java_hash(key) & 0x7FFFFFFF) % PARTITIONS % len(order)
    return next((broker for broker in order[first:] + order[:first] if broker in live), None)


def java_hash(text: str) -> int:
    """Java's `String.hashCode`, as an unsigned number of 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    found = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        found = (31 * found + (high << 8 | low)) & 0xFFFFFFFF
    return found
