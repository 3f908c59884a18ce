"""A moment of a recording looks the same whichever way somebody came to it."""

from pathlib import Path

import pytest

from tests.support.tui.replay import Replayed, recorded, replayed, scripted

VIEWS = ("1", "2", "3", "4", "5", "6", "7")
MOMENTS = 8
STEP_S = 10
SIZE = (120, 40)
BACK, ON, FIRST, LAST = (
    "left_square_bracket",
    "right_square_bracket",
    "circumflex_accent",
    "dollar_sign",
)
WAYS = {
    "from the end": (LAST, BACK, BACK, BACK, BACK),
    "past it and back": (LAST, FIRST, *(ON,) * 6, BACK, BACK),
    "to and fro": (ON, ON, BACK, ON, ON, ON),
}
"""Each of them ends four steps after the beginning."""


async def frame_of(replay: Replayed, view: str) -> list[str]:
    """A view of the moment that is shown."""
    await replay.go(view)
    return replay.lines()


@pytest.mark.slow
async def test_a_moment_looks_the_same_by_every_way(tmp_path: Path) -> None:
    """Plots too: they were drawn anew each four seconds only, also of the past."""
    async with recorded(tmp_path, scripted(), size=SIZE) as shown:
        for number in range(MOMENTS):
            shown.backend.cluster.down = {3: "connection refused"} if number == 4 else {}
            await shown.later(STEP_S)
        paths = shown.recorder.paths
    found = {}
    for way, keys in WAYS.items():
        async with replayed(paths, size=SIZE) as replay:
            # A view with a plot is in sight on the way.
            await replay.go("2", *keys)
            found[way] = {view: await frame_of(replay, view) for view in VIEWS}
    first, *others = found.values()
    for frames in others:
        for view in VIEWS:
            assert frames[view] == first[view]
