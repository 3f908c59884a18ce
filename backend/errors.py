"""Every error kshunt raises on purpose.

Our exception hierarchy::

    KshuntError
    ├── BadInput                 what was asked cannot be meant; nothing was done
    │   ├── PlanError            a reassignment plan does not parse or contradicts itself
    │   ├── ConfigError          a setting or a client property file cannot be used
    │   ├── NoTerminal           the dashboard was started without a terminal
    │   ├── NoSamples            nothing is recorded there (`pipeline.samples.recording_folder`)
    │   ├── UnreadableSamples    no recording of samples (`telemetry.recording.schema`)
    │   ├── UsageError           the command line cannot be meant (`commandline.reading`)
    │   └── WrongCluster         the cluster is not the one the request names
    ├── ClusterError             a whole call to the cluster failed
    │   ├── ClusterUnreachable   no broker answered in time                (retriable)
    │   │   └── InDoubt          a change was not answered (`admin.zookeeper.session`)
    │   ├── BrokerUnreachable    one broker did not answer in time         (retriable)
    │   │   └── BrokerDown       it does not run (`admin.rpc.error_mapping`)  (retriable)
    │   ├── NotAuthorized        the cluster refuses this principal
    │   ├── JournalUnavailable   the journal took or gave nothing in time  (retriable)
    │   │   └── ReadBehind       not at its end (`journal_storage.topic.fenced_transactions`)
    │   ├── JournalFenced        another backend writes the journal
    │   ├── JournalUnusable      the journal's topic would lose entries
    │   ├── UnreadableZnode      a znode holds no JSON of Kafka's (`admin.zookeeper.znode_layout`)
    │   └── WireError            an answer breaks its protocol (`wire.reader`)
    ├── LogError                 a partition's log refuses (`embedded.logs.errors`)
    ├── Conflict                 the cluster's state forbids what was asked
    │   ├── NotActive            another backend acts, or the journal does not say who
    │   │   └── NotActiveYet     it is not certain yet that this one may       (retriable)
    │   ├── ResultsBusy          another run writes the results (`pipeline.results.result_runs`)
    │   ├── Refused              what a shrink has to do is refused (`operations.shrink`)
    │   └── StillThere           what a shrink takes away is not gone yet          (retriable)
    ├── AwaitsApproval           it takes two people, and one has asked; nothing was changed yet
    ├── UnreadableOwnership      a stored throttle record cannot be understood
    ├── TooManyStreams           every place for a stream is taken             (retriable)
    ├── NotSupported             this cluster or this version cannot do it
    │   ├── JavaMissing          no Java that Spark runs on (`pipeline.spark.java`)
    │   └── SparkMissing         Spark is not installed (`pipeline.spark.session`)
    ├── InvalidReplicationFactor more replicas than brokers (`placement.placer`)
    ├── ReplicaPlacementFailed   a placer could not place, or not so (`placement.placer`)
    ├── SparkFailed              a job of the pipeline ended early (`pipeline.spark.session`)
    ├── CopyFailed               a copy of records stopped (`pipeline.kernels.copy_errors`)
    │   ├── RecordTooLarge       the target does not take a record of its size
    │   ├── CopyRefused          the cluster refuses this principal
    │   ├── CopyFenced           another copy of the same operation took over
    │   ├── TopicGone            the source or the target is not there any more
    │   ├── RecordsGone          records were deleted before they were copied
    │   ├── TransactionOpen      a producer's transaction hides what comes after it  (retriable)
    │   └── CopyUnreachable      brokers did not answer in time                      (retriable)
    ├── UnreadableResults        results of a newer version, or damaged (`results.result_runs`)
    └── BackendError             the kshunt backend answered with an error
        └── BackendUnreachable   no backend answers at that address        (retriable)

`retriable` says whether the same call may succeed if it is simply repeated. `kafka_code` is the
Kafka protocol error that the failure corresponds to, for callers that speak Kafka's codes. A
failure of one item inside a call is never raised: it is an `ItemResult` (`port.item_result`).
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from kshunt.backend.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    INCONSISTENT_CLUSTER_ID,
    INVALID_CONFIG,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REQUEST,
    PRODUCER_FENCED,
    REASSIGNMENT_IN_PROGRESS,
    REQUEST_TIMED_OUT,
    THROTTLING_QUOTA_EXCEEDED,
    TOPIC_AUTHORIZATION_FAILED,
    UNSUPPORTED_VERSION,
)


class KshuntError(Exception):
    """What happened, what state the cluster is in, and what to do, in that order."""

    title: str = "kshunt error"
    retriable: bool = False
    kafka_code: ClassVar[int] = -1
    http_status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1
    """What `kshunt` ends with."""

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        """One or two sentences for an operator; never holds a secret."""
        self.advice = advice
        """What to do next, or empty."""
        self.answered_code: int | None = None
        """Kafka's error code of the whole answer; None where no answer with a code came."""
        self.broker: int | None = None
        """The broker whose call failed; None where it was not one's, or its id is not known."""

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".rstrip()


class BadInput(KshuntError):
    """What was asked cannot be meant; nothing was done."""

    title = "Bad input"
    kafka_code = INVALID_REQUEST
    http_status = 422


class PlanError(BadInput):
    """A reassignment plan does not parse, or contradicts itself or the cluster."""

    title = "Unusable plan"
    kafka_code = INVALID_REPLICA_ASSIGNMENT

    def __init__(
        self, message: str, *, advice: str = "", line: int | None = None, column: int | None = None
    ) -> None:
        where = "" if line is None else f"line {line}, column {column}: "
        super().__init__(where + message, advice=advice)
        self.line = line
        """One-based line in the plan's text, where it is known."""
        self.column = column
        """One-based column in the plan's text, where it is known."""


class ConfigError(BadInput):
    """A setting or a client property file cannot be used."""

    title = "Unusable configuration"
    kafka_code = INVALID_CONFIG


class NoTerminal(BadInput):
    """The dashboard was started without a terminal to draw on."""

    title = "No terminal"
    exit_code = 2


class WrongCluster(BadInput):
    """The cluster is not the one the request names."""

    title = "Wrong cluster"
    kafka_code = INCONSISTENT_CLUSTER_ID
    http_status = 409


class ClusterError(KshuntError):
    """A whole call to the cluster failed."""

    title = "The cluster rejected the request"
    http_status = 502


class ClusterUnreachable(ClusterError):
    """No broker answered in time."""

    title = "Cluster unreachable"
    retriable = True
    kafka_code = REQUEST_TIMED_OUT
    http_status = 503


class BrokerUnreachable(ClusterError):
    """One broker did not answer in time; the others are not affected."""

    title = "Broker unreachable"
    retriable = True
    kafka_code = REQUEST_TIMED_OUT
    http_status = 503

    def __init__(self, message: str, *, advice: str = "", waited_s: float | None = None) -> None:
        super().__init__(message, advice=advice)
        self.waited_s = waited_s
        """For how long its answer was waited for; None where it failed for something else."""


class NotAuthorized(ClusterError):
    """The cluster refuses this principal."""

    title = "Not authorized by the cluster"
    kafka_code = CLUSTER_AUTHORIZATION_FAILED
    http_status = 403


class JournalUnavailable(ClusterError):
    """The journal did not take or give an answer; the same call may succeed later."""

    title = "Journal unavailable"
    retriable = True
    kafka_code = REQUEST_TIMED_OUT
    http_status = 503

    def __init__(self, message: str, *, advice: str = "", written: bool | None = False) -> None:
        super().__init__(message, advice=advice)
        self.written = written
        """False where nothing was written, None where that is not known; `Journal.resolve` and
        the next `append` find out."""


class JournalFenced(ClusterError):
    """Another backend writes the journal, or this one was silent for too long: act no more."""

    title = "Another backend is active"
    kafka_code = PRODUCER_FENCED
    http_status = 409


class JournalUnusable(ClusterError):
    """The journal's topic has settings that would lose entries, or is not the one it was."""

    title = "The journal's topic cannot be used"
    kafka_code = INVALID_CONFIG
    http_status = 409


class Conflict(KshuntError):
    """The cluster's present state forbids what was asked; nothing was done."""

    title = "Conflict"
    kafka_code = REASSIGNMENT_IN_PROGRESS
    http_status = 409


class ActiveBackend(Protocol):
    """The backend that acts, by its own words."""

    @property
    def backend(self) -> str:
        """Its id."""

    @property
    def host(self) -> str:
        """The machine that it runs on."""

    @property
    def address(self) -> str:
        """Where its API can be reached: `unix:/path`, on its own host only, or a URL."""

    @property
    def started_ms(self) -> int:
        """When it started, by its own clock."""


class NotActive(Conflict):
    """Another backend of this cluster acts, or the journal does not say which one does."""

    title = "This backend is not active"

    def __init__(
        self, message: str, *, advice: str = "", active: ActiveBackend | None = None
    ) -> None:
        super().__init__(message, advice=advice)
        self.active = active
        """Who acts instead, where that is known."""


class NotActiveYet(NotActive):
    """It is not certain yet that this backend may act. Nothing was changed."""

    retriable = True


class AwaitsApproval(KshuntError):
    """It takes two people: what was asked for is a proposal, and nothing was changed yet."""

    title = "Awaits approval"
    kafka_code = TOPIC_AUTHORIZATION_FAILED
    http_status = 202

    def __init__(self, message: str, *, advice: str = "", proposal_id: str = "") -> None:
        super().__init__(message, advice=advice)
        self.proposal_id = proposal_id
        """What somebody else approves."""


class UnreadableOwnership(KshuntError):
    """A stored throttle record cannot be understood; it is neither used nor written over."""

    title = "Unreadable throttle record"


class TooManyStreams(KshuntError):
    """Every place for a replica stream is taken."""

    title = "Too many streams"
    retriable = True
    kafka_code = THROTTLING_QUOTA_EXCEEDED
    http_status = 503


class NotSupported(KshuntError):
    """This cluster, or this version of it, cannot do what was asked."""

    title = "Not supported here"
    kafka_code = UNSUPPORTED_VERSION
    http_status = 501


class BackendError(KshuntError):
    """The kshunt backend answered with an error (an RFC 9457 problem document)."""

    title = "Backend error"

    def __init__(
        self,
        message: str,
        *,
        advice: str = "",
        status: int = 500,
        retriable: bool | None = None,
        title: str = "",
    ) -> None:
        super().__init__(message, advice=advice)
        if title:
            self.title = title
        self.status = status
        """The HTTP status of the answer."""
        if retriable is not None:
            self.retriable = retriable


class BackendUnreachable(BackendError):
    """No backend answers at that address."""

    title = "Backend unreachable"
    retriable = True
    http_status = 503
