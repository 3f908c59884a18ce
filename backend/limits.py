"""Every limit, in one place.

A named tuple, which is made sooner than a dataclass: every tool has a bound for the files it reads.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Limits(NamedTuple):
    """Upper bounds: nothing in kshunt grows without one of these."""

    request_body_bytes: int = 4 * 1024 * 1024
    """Largest HTTP request, and plan file; a plan of 10,000 partitions is about 1 MB."""
    change_body_bytes: int = 1024 * 1024
    """Of other changes than plans."""
    question_body_bytes: int = 64 * 1024
    """Of a request that any viewer may send, unless its route takes more."""
    body_values: int = 250_000
    """Values in one body; a plan of 10,000 partitions has about 130,000."""
    large_bodies_per_caller: int = 8
    """Requests over 64 kB that one caller may have under way."""
    response_frame_bytes: int = 512 * 1024 * 1024
    """Largest answer that is taken from a broker."""
    events_kept: int = 1_000
    """Events that a reconnecting reader can still resume from."""
    rows_per_page: int = 10_000
    """Most replicas in one JSON answer."""
    partitions_per_reassignment: int = 10_000
    """Kafka's own bound of records in one controller operation."""
    partitions_per_request: int = 10_000
    """Partitions that one request names: what follows from more would hold up the event loop."""
    moves_per_broker: int = 5
    """Moves in flight that copy from or to one broker, from any tool."""
    moves_in_cluster: int = 200
    """Moves in flight in the whole cluster, from any tool."""
    operations_kept: int = 200
    """Ended operations that are still listed."""
    calibration_operations: int = 30
    """Operations with a forecast that counts from which a cluster's own calibration is made."""
    audit_kept: int = 10_000
    """Audit entries that stay in the journal."""
    journal_operation_bytes: int = 64 * 1024 * 1024
    """One operation's or proposal's entry in the journal, as JSON."""
    journal_bytes: int = 256 * 1024 * 1024
    """All of the journal's entries, as JSON; the largest of a longer one are set aside."""
    journal_aside: int = 20_000
    """Entries of the journal that nobody believes and that are remembered."""
    journal_aside_bytes: int = 64 * 1024 * 1024
    """Those, as they are in the journal."""
    proposals_waiting: int = 50
    """Proposals that may wait for a second person at the same time."""
    proposals_kept: int = 100
    """Those that have ended and are still listed."""
    notes_per_operation: int = 200
    """Notes on one operation."""
    present: int = 200
    """Sessions that one backend remembers as being here."""
    present_per_caller: int = 16
    """Those of one credential."""
    streams: int = 64
    """Open replica streams."""
    streams_per_caller: int = 16
    """Streams of any kind that one credential has open."""
    requests_per_s: float = 50.0
    """How often one credential may ask in the long run."""
    requests_at_once: float = 200.0
    """And how often in a burst."""
    credential_s: float = 10.0
    """A stream whose credential was revoked or has expired ends after this time."""
    connections: int = 2_048
    """Open at the same time; no more than half of the files that the process may open."""
    connections_per_peer: int = 256
    """Those of one address, or of one user on a Unix-domain socket."""
    handshakes: int = 128
    """TLS handshakes at the same time."""
    handshake_s: float = 5.0
    """A TLS handshake that takes longer is ended."""
    header_s: float = 10.0
    """A connection that has not sent the head of a request by then is closed."""
    body_grace_s: float = 10.0
    """A body may take this long, and `body_bytes_per_s` beyond."""
    body_bytes_per_s: int = 16 * 1024
    """A body that comes slower is refused."""
    linger_s: float = 2.0
    """How long the rest of a refused request is read, so that its client sees the refusal."""
    failed_tries: int = 30
    """Refused tokens of one peer in a burst."""
    failed_tries_per_s: float = 0.5
    """And how many a second after that."""
    planners: int = 1
    """Plans and rehearsals that are worked out at the same time, each by its own process."""
    planners_waiting: int = 8
    """Those that may wait for their turn, and the one at work."""
    planners_per_caller: int = 3
    """Of these, those of one credential."""
    planning_s: float = 900.0
    """What takes a planner or a rehearsal longer is ended."""
    replicas_explained: int = 300
    """Stuck replicas of a snapshot that have words of their own; others have their cause's."""


LIMITS: Final = Limits()
