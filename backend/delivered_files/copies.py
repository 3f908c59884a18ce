"""What rows of `rates` say of copies, whichever version of kshunt wrote them.

The kernel of rates decides what belongs to a copy. Rows of former versions do not say it. Of those
the rows of replicas that are added or out of the ISR count; what they copied between their last
such row and the next one is not known.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

STATED: Final = ("copied_from", "copied_bytes", "copied_s")
"""What the kernel says of a copy."""
_GUESSED: Final = ("leader", "advanced_bytes", "elapsed_s")
_TYPES: Final = (pa.int32(), pa.int64(), pa.float64())
NEEDED: Final = (*STATED, *_GUESSED, "broker", "adding", "in_isr")
"""The columns of `rates` that `with_copies` needs."""


def out_of_place(rows: Any) -> Any:
    """Which rows of `rates` are of replicas that are added, or out of the ISR."""
    return pc.or_(rows["adding"], pc.invert(rows["in_isr"]))


def with_copies(rows: Any) -> Any:
    """The same rows of `rates`; each that belongs to a copy has its `copied_from`."""
    source = rows["copied_from"].cast(pa.int32())
    copied = pc.and_kleene(out_of_place(rows), pc.not_equal(rows["leader"], rows["broker"]))
    former = pc.and_(pc.is_null(source), pc.fill_null(copied, False))
    for stated, guessed, type in zip(STATED, _GUESSED, _TYPES, strict=True):
        values = pc.if_else(former, rows[guessed].cast(type), rows[stated].cast(type))
        rows = rows.set_column(rows.schema.get_field_index(stated), stated, values)
    return rows
