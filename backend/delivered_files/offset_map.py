"""The offset map of a copied topic, as `kshunt pipeline repartition --verify` leaves it on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from kshunt.backend.domain.shrink.offset_maps import OffsetMap
from kshunt.backend.errors import ConfigError

COLUMNS: Final = ("source_partition", "source_offset", "target_partition", "target_offset")


class StoredOffsetMap:
    """A map in parts, each read when its turn comes: a large one need not fit into memory."""

    def __init__(self, folder: Path) -> None:
        """Find its files.

        Raises:
            ConfigError: there is no map, or not all of it.
        """
        if not (folder / "_SUCCESS").exists():
            raise ConfigError(
                f"There is no complete offset map in {folder}.",
                advice="Make it with kshunt pipeline repartition --verify.",
            )
        self._files = sorted(folder.glob("*.parquet"))

    def __iter__(self) -> Iterator[OffsetMap]:
        for path in self._files:
            with pq.ParquetFile(path) as file:
                for number in range(file.num_row_groups):
                    yield _part(file.read_row_group(number, list(COLUMNS)))


def _part(rows: Any) -> OffsetMap:
    arrays = [rows[name].to_numpy() for name in COLUMNS]
    return OffsetMap(arrays[0].astype(np.int32), arrays[1], arrays[2].astype(np.int32), arrays[3])
