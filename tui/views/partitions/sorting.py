"""Sorting rows by several columns, fast enough for 200,000 of them.

Goals: the order by up to three columns in well under 50 ms, the same each time, and rows that are
alike in all of them never swap.

Algorithm: the values of a column become whole numbers of few bits (`Ranks`). The value and the
row's own place, which is unique, then fit into one 64-bit key. Because keys are unique, numpy can
sort them with an algorithm that is not stable. Columns of few bits share a key. The next key only
has to sort the rows that are still alike: their run, their value and their place make a key again.
Where these take more than 63 bits together, the values are numbered densely first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ranks: TypeAlias = NDArray[np.int64]
"""Whole numbers from 0 that sort as what they stand for."""

KEY_BITS: Final = 63
RANK_MOST: Final = 2**44 - 1
"""Amounts above this, 17 TB, sort alike; above half of it where unknown is above nothing."""


def amount_ranks(column: NDArray[Any], *, unknown_before: bool = False) -> Ranks:
    """Amounts; -1 is unknown and stands between nothing and the smallest one.

    With `unknown_before` it stands before nothing.
    """
    amounts = column.astype(np.int64)
    if unknown_before:
        return np.minimum(amounts + 1, RANK_MOST)
    return np.where(amounts < 0, 1, np.minimum(amounts, RANK_MOST // 2) * 2)


def float_ranks(column: NDArray[np.float32], *, unknown: float) -> Ranks:
    """Rates and times; NaN sorts as the `unknown` value."""
    known = np.where(np.isnan(column), np.float32(unknown), column) + np.float32(0.0)
    bits = known.view(np.int32).astype(np.int64)
    # The bits of a negative float sort the wrong way round.
    ordered: Ranks = np.where(bits < 0, -(bits + 2**31) - 1, bits) + 2**31 + 1
    return ordered


def sorted_places(levels: Sequence[tuple[Ranks, bool]], count: int) -> NDArray[np.intp]:
    """The places 0 to `count` in the order of these columns, the first one first.

    Args:
        levels: of each column its ranks, and True for the largest first.
        count: how many rows there are.
    """
    order = np.arange(count)
    if count < 2:
        return order
    runs = np.zeros(count, np.int64)
    joined = _joined(levels, KEY_BITS - count.bit_length())
    for number, ranks in enumerate(joined):
        alike = slice(None) if number == 0 else _alike(runs)
        places = order[alike]
        if len(places) < 2:
            break
        order[alike] = _by_run_and_value(runs[alike], ranks[places], places)
        if number < len(joined) - 1:
            runs = _split(runs, alike, ranks[order[alike]])
    return order


def _joined(levels: Sequence[tuple[Ranks, bool]], bits_most: int) -> list[Ranks]:
    """Columns that begin at 0 and grow; neighbours are one where `bits_most` bits hold both."""
    joined: list[Ranks] = []
    bits = 0
    for ranks, reverse in levels:
        largest, least = int(ranks.max()), int(ranks.min())
        values = largest - ranks if reverse else ranks - least
        more = (largest - least).bit_length()
        if joined and bits + more <= bits_most:
            joined[-1] = joined[-1] << more | values
            bits += more
        else:
            joined.append(values)
            bits = more
    return joined


def _alike(runs: Ranks) -> NDArray[np.bool_]:
    """Rows whose run has more than one member; runs stand together."""
    if not len(runs):
        return np.zeros(0, np.bool_)
    starts = np.flatnonzero(np.append(True, runs[1:] != runs[:-1]))
    lengths = np.diff(np.append(starts, len(runs)))
    found: NDArray[np.bool_] = np.repeat(lengths > 1, lengths)
    return found


def _by_run_and_value(runs: Ranks, values: Ranks, places: NDArray[np.intp]) -> NDArray[np.intp]:
    """The places sorted by run, then value, then place."""
    place_bits = int(places.max()).bit_length()
    value_bits = int(values.max()).bit_length()
    if int(runs.max()).bit_length() + value_bits + place_bits > KEY_BITS:
        values = np.searchsorted(_distinct(values), values)
        value_bits = int(values.max()).bit_length()
    keys = ((runs << value_bits | values) << place_bits) | places
    # Sorting keys and taking the places out of them is three times as fast as an argsort.
    return np.sort(keys) & ((1 << place_bits) - 1)


def _distinct(values: Ranks) -> Ranks:
    found = np.sort(values)
    distinct: Ranks = found[np.append(True, found[1:] != found[:-1])]
    return distinct


def _split(runs: Ranks, alike: slice | NDArray[np.bool_], values: Ranks) -> Ranks:
    """Runs cut where the values differ; numbered so that they stay sorted."""
    spread = np.zeros(len(runs), np.int64)
    spread[alike] = values
    differs = (runs[1:] != runs[:-1]) | (spread[1:] != spread[:-1])
    return np.concatenate(([0], np.cumsum(differs)))
