"""kill -9 of a dashboard that records: what it saw until then is on file."""

import os
import signal
import sys
from contextlib import closing
from pathlib import Path

from kshunt.tui.recorder.reader import RecordingReader
from kshunt.tui.recorder.retention import clean
from tests.support.terminal import terminal
from tests.support.tui.app import DEADLINE_S
from tests.support.tui.replay import replayed
from tests.support.waiting import wait_until

START_S = 60.0


def snapshots(paths: list[Path]) -> int:
    """How many distinct moments a recording holds; 0 while there is none."""
    if not paths:
        return 0
    with closing(RecordingReader(paths)) as reel:
        return len({point.at_ms for point in reel.history()})


async def test_killed_in_the_middle_of_recording_nothing_before_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "kshunt" / "recordings"
    environ = {"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    with terminal([sys.executable, "-m", "tests.support.tui.demo"], environ) as shown:
        shown.until(rb"live", START_S)

        def recorded() -> list[Path]:
            shown._read(0.05)
            return sorted(folder.glob("*.kshunt"))

        wait_until(lambda: snapshots(recorded()) >= 3, START_S, "some moments are recorded")
        assert clean(folder, 9e12) == (), "what is being written is not removed"
        os.killpg(shown.process.pid, signal.SIGKILL)
        shown.process.wait(DEADLINE_S)
    paths = sorted(folder.glob("*.kshunt"))
    assert snapshots(paths) >= 3
    async with replayed(paths) as replay:
        await replay.go("dollar_sign")
        assert "REPLAY" in replay.frame()
        assert "Moving 6 partitions" in replay.frame()
    assert clean(folder, 9e12) == tuple(paths), "nobody writes it any more"
