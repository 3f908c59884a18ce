"""The mode of a partition (KIP-694) in the tagged fields of its entry in a Metadata answer.

KIP-694 has a plain field of a version that Kafka has since given to something else. A tagged
field leaves every version, and every client that does not know it, as it is. The seed does not say
how a client learns when a ReadOnly partition goes; a second tagged field tells that.
"""

from __future__ import annotations

from typing import Final

from kshunt.backend.domain.cluster.partition_modes import UNKNOWN_MS, PartitionMode
from kshunt.backend.wire.reader import Reader, uvarint

MODE_TAG: Final = 10_000
"""An INT8, private like the API keys of the seeds."""
DELETES_TAG: Final = 10_001
"""An INT64: when the data of a ReadOnly partition goes, in milliseconds since the epoch."""


def read_tags(reader: Reader) -> dict[int, bytes]:
    """One section of tagged fields, by tag."""
    fields: dict[int, bytes] = {}
    for _ in range(reader.uvarint()):
        tag, size = reader.uvarint(), reader.uvarint()
        start = reader.skip(size)
        fields[tag] = reader.data[start : reader.at]
    return fields


def tag_section(fields: dict[int, bytes]) -> bytes:
    """The fields in the ascending order that KIP-482 asks for."""
    out = [uvarint(len(fields))]
    for tag in sorted(fields):
        out += (uvarint(tag), uvarint(len(fields[tag])), fields[tag])
    return b"".join(out)


def mode_fields(mode: PartitionMode, deletes_ms: int = UNKNOWN_MS) -> dict[int, bytes]:
    """The tagged fields of a mode; ReadWrite is what a client assumes, and is not written."""
    if mode is PartitionMode.READ_WRITE:
        return {}
    fields = {MODE_TAG: int(mode).to_bytes(1, "big", signed=True)}
    if deletes_ms != UNKNOWN_MS:
        fields[DELETES_TAG] = deletes_ms.to_bytes(8, "big", signed=True)
    return fields


def read_mode(fields: dict[int, bytes], reader: Reader) -> tuple[int, int]:
    """The mode and the time of deletion that the fields tell, by their codes.

    Raises:
        WireError: one is not as long as its type.
    """
    mode = fields.get(MODE_TAG)
    deletes = fields.get(DELETES_TAG)
    if mode is not None and len(mode) != 1:
        raise reader.error(f"a mode has {len(mode)} bytes")
    if deletes is not None and len(deletes) != 8:
        raise reader.error(f"a time of deletion has {len(deletes)} bytes")
    code = 0 if mode is None else int.from_bytes(mode, "big", signed=True)
    at_ms = UNKNOWN_MS if deletes is None else int.from_bytes(deletes, "big", signed=True)
    return int(PartitionMode.of(code)), at_ms
