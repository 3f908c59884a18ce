"""The error codes of Kafka's that coordinators answer with."""

from __future__ import annotations

import enum

from kshunt.backend import error_codes


class CoordinatorCode(enum.IntEnum):
    """Kafka's error codes by their protocol names."""

    NONE = error_codes.NONE
    UNKNOWN_TOPIC_OR_PARTITION = error_codes.UNKNOWN_TOPIC_OR_PARTITION
    OFFSET_METADATA_TOO_LARGE = error_codes.OFFSET_METADATA_TOO_LARGE
    COORDINATOR_NOT_AVAILABLE = error_codes.COORDINATOR_NOT_AVAILABLE
    NOT_COORDINATOR = error_codes.NOT_COORDINATOR
    ILLEGAL_GENERATION = error_codes.ILLEGAL_GENERATION
    INCONSISTENT_GROUP_PROTOCOL = error_codes.INCONSISTENT_GROUP_PROTOCOL
    INVALID_GROUP_ID = error_codes.INVALID_GROUP_ID
    UNKNOWN_MEMBER_ID = error_codes.UNKNOWN_MEMBER_ID
    INVALID_SESSION_TIMEOUT = error_codes.INVALID_SESSION_TIMEOUT
    REBALANCE_IN_PROGRESS = error_codes.REBALANCE_IN_PROGRESS
    INVALID_REQUEST = error_codes.INVALID_REQUEST
    INVALID_PRODUCER_EPOCH = error_codes.INVALID_PRODUCER_EPOCH
    INVALID_TXN_STATE = error_codes.INVALID_TXN_STATE
    INVALID_PRODUCER_ID_MAPPING = error_codes.INVALID_PRODUCER_ID_MAPPING
    INVALID_TRANSACTION_TIMEOUT = error_codes.INVALID_TRANSACTION_TIMEOUT
    CONCURRENT_TRANSACTIONS = error_codes.CONCURRENT_TRANSACTIONS
    OPERATION_NOT_ATTEMPTED = error_codes.OPERATION_NOT_ATTEMPTED
    NON_EMPTY_GROUP = error_codes.NON_EMPTY_GROUP
    GROUP_ID_NOT_FOUND = error_codes.GROUP_ID_NOT_FOUND
    MEMBER_ID_REQUIRED = error_codes.MEMBER_ID_REQUIRED
    FENCED_INSTANCE_ID = error_codes.FENCED_INSTANCE_ID
    UNSTABLE_OFFSET_COMMIT = error_codes.UNSTABLE_OFFSET_COMMIT
    PRODUCER_FENCED = error_codes.PRODUCER_FENCED
    TRANSACTION_ABORTABLE = error_codes.TRANSACTION_ABORTABLE


class CoordinatorError(Exception):
    """A coordinator refuses a request; nothing was changed."""

    def __init__(self, code: CoordinatorCode) -> None:
        super().__init__(code.name)
        self.code = code
        """What to answer."""
