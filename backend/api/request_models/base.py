"""What models of several resources share, for validation and for OpenAPI.

`kshunt.backend.api.schema` writes and reads the same JSON without these models; a test holds the
two together.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from kshunt.backend.domain.audit.requester_limits import REASON_MAX, WHO_MAX
from kshunt.backend.domain.throttles.configs import (
    RATE_MAX_BYTES_PER_S,
    RATE_MIN_BYTES_PER_S,
    UNTHROTTLED,
)
from kshunt.backend.limits import LIMITS


def _whole(value: Any) -> Any:
    """JSON knows one kind of number: 3.0 is an integer, although Python reads it as a float."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _meant(value: Any) -> Any:
    """KIP-179 writes Long.MAX_VALUE for no throttle; as an integer, for no float is exact there."""
    return None if type(value) is int and value == UNTHROTTLED else value


# The converter stands last: constraints after it would be missing from the schema.
WHOLE = BeforeValidator(_whole)
Topic = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]+$")]
Int32 = Annotated[int, Field(ge=0, le=2**31 - 1), WHOLE]
Id = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
Rate = Annotated[
    int,
    Field(ge=RATE_MIN_BYTES_PER_S, le=RATE_MAX_BYTES_PER_S, description="bytes a second"),
    WHOLE,
]
RateOrNone = Annotated[
    Rate | None,
    BeforeValidator(_meant),
    Field(description="null, or KIP-179's 9223372036854775807: no throttle"),
]
Replicas = Annotated[
    str,
    Field(
        max_length=1_000_000,
        description="partition:broker pairs, partition:* for all brokers, * for all, or empty",
    ),
]
TimeoutMs = Annotated[
    int,
    Field(ge=1, le=600_000, description="milliseconds; kshunt waits for at least a second"),
    WHOLE,
]
EpochMs = Annotated[int, Field(ge=0, le=2**53, description="milliseconds since the epoch"), WHOLE]
ClusterId = Annotated[
    str | None,
    Field(
        max_length=200,
        description="if given, a backend of another cluster rejects the request",
    ),
]
PLAIN = r"^[^\x00-\x1f\x7f-\x9f]*$"
"""No control characters."""
Who = Annotated[
    str,
    Field(
        max_length=WHO_MAX,
        description="for example ada@bastion; ignored if a credential names the caller",
    ),
]


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Intent(Strict):
    """How something is asked for; `who` and `reason` are the caller's words, and prove nothing."""

    who: str = Field(
        default="", max_length=WHO_MAX, description="user and host, for example ada@bastion"
    )
    reason: str = Field(
        default="", max_length=REASON_MAX, description="the reason, in your own words"
    )
    preview: str = Field(
        default="",
        max_length=500,
        description="fingerprint of a preview: the request is rejected if the cluster has "
        "changed since then",
    )
    cluster_id: ClusterId = None


class ChangeModel(Intent):
    """A change of the cluster: it can be checked alone."""

    validate_only: bool = False


class PartitionModel(Strict):
    """A partition."""

    topic: Topic
    partition: Int32


class PlanEntryModel(PartitionModel):
    """One partition of a plan."""

    replicas: list[Int32] = Field(min_length=1, max_length=1_000)
    log_dirs: list[str] | None = Field(default=None, max_length=1_000)


class PlanModel(Strict):
    """Kafka's reassignment JSON, version 1."""

    version: Literal[1] = 1
    cluster_id: ClusterId = None
    partitions: list[PlanEntryModel] = Field(min_length=1, max_length=LIMITS.partitions_per_request)
