"""Keeping producers from a topic without an authorizer: by the size of what it takes.

Constraints
    - A leader refuses a batch that is larger than max.message.bytes, whatever the producer's acks;
      replication and reading know no such limit.
    - It judges by it also the markers that end a transaction, which the transaction's coordinator
      has it write. The coordinator takes that refusal for fatal: the producer's transactional id
      then stays in CONCURRENT_TRANSACTIONS. What comes after the open transaction stays hidden.
      Both last for as long as the coordinator's broker runs, whatever the limit is meanwhile.
Decision
    The limit is the size of a marker. Every transaction can end, also one that begins afterwards
    and is refused its records; and all records are refused but the smallest. The code that
    seals has to watch the log ends: they show those, and markers.
"""

from __future__ import annotations

from typing import Final

SEALED_BYTES: Final = 78
"""A batch with a marker: 61 bytes of batch, and 17 of record with its key (4) and value (6)."""
