"""What time brings: ends of moves, and partitions whose delay is over."""

from __future__ import annotations

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.embedded.controller.decision import Decision
from kshunt.backend.embedded.controller.reassign import completed
from kshunt.backend.embedded.controller.shrink import due_deletions
from kshunt.backend.embedded.controller.throttle_removal import with_removal
from kshunt.backend.embedded.metadata.image import ClusterImage


def tick(image: ClusterImage, now_ms: int) -> Decision[TopicPartition]:
    """Everything that is due; safe to repeat, and empty if nothing is."""
    moves = completed(image) if image.is_moving else []
    return Decision.of(with_removal(image, [*moves, *due_deletions(image, now_ms)]))
