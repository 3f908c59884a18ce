"""Before anything is recorded there is no past: the dashboard says so, and stays live."""

import errno
import os
from pathlib import Path

import pytest

from kshunt.tui.actions import ACTIONS
from kshunt.tui.data.playback import NOTHING_YET, TOGGLE
from kshunt.tui.recorder import recorder as recorder_module
from kshunt.tui.recorder import recording_file
from tests.support.tui.replay import Recorded, recorded, scripted

BACK = [
    key
    for action in ACTIONS
    if action.id.startswith("time") and action.id.endswith(("-1)", "-10)", "-60)", TOGGLE))
    for key in action.keys
]
"""Every key that leads back from the present."""
STOPPED = "Recording has stopped: No space left on device"


def disk_full_at(monkeypatch: pytest.MonkeyPatch, kinds: set[int]) -> None:
    """A disk that takes everything but records of these kinds."""
    write = recorder_module._write_all
    heads = tuple(recording_file.MARKER + bytes([kind]) for kind in kinds)

    def until_full(descriptor: int, data: bytes) -> None:
        if data.startswith(heads):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(descriptor, data)

    monkeypatch.setattr(recorder_module, "_write_all", until_full)


async def stays_live(shown: Recorded, key: str) -> None:
    """Press a key that leads back in time, and wait until it was answered."""
    await shown.go(key)
    assert not shown.app.playback.past
    assert "BACK IN TIME" not in shown.frame()
    assert "1970" not in shown.frame()
    assert shown.lines()[0].endswith(" live, <2s old")


KINDS = {
    "nothing but the heading": {recording_file.SCENE, recording_file.FACT},
    "no snapshot": {recording_file.WHOLE},
}


@pytest.mark.parametrize("kinds", KINDS.values(), ids=KINDS)
async def test_a_recording_without_a_snapshot_is_no_past(
    kinds: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_full_at(monkeypatch, kinds)
    monkeypatch.chdir(tmp_path)
    async with recorded(tmp_path, scripted()) as shown:
        assert shown.recorder.paths, "there is a file"
        for key in BACK:
            await stays_live(shown, key)
            assert shown.said.startswith(STOPPED), key
        await shown.go("W")
        assert shown.said.startswith(STOPPED)
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".md")]


async def test_before_the_first_snapshot_nothing_is_recorded_yet(tmp_path: Path) -> None:
    cluster = scripted()
    async with recorded(tmp_path, cluster) as shown:
        # As before the first snapshot: no file has been begun.
        shown.recorder.paths = ()
        for key in (*BACK, "W"):
            await stays_live(shown, key)
            assert shown.said == NOTHING_YET, key
        await shown.go("right_square_bracket")
        assert shown.said == "This is the present."


async def test_a_recording_that_cannot_be_read_leaves_the_dashboard_live(live: Recorded) -> None:
    live.recorder.paths[0].write_bytes(b"not a recording")
    await stays_live(live, "left_square_bracket")
    assert live.recorder.paths[0].name in live.said


async def test_keys_that_come_while_the_past_is_opened_each_count(live: Recorded) -> None:
    live.app.playback.step(-10)
    live.app.playback.step(-10)
    await live.arrived()
    assert live.app.playback.ago_s() == 20
    assert " 20s ago " in live.frame()
