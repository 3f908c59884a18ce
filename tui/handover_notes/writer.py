"""From a recording to notes on file. Reads and writes files: call it in a thread."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from kshunt.backend.domain.text.formatting import file_time_text
from kshunt.tui.data.files import save_text
from kshunt.tui.handover_notes.notes import RecordedFacts, handover, timeline
from kshunt.tui.recorder.reader import RecordingReader


def facts_until(reel: RecordingReader, time_ms: int) -> RecordedFacts:
    """What a recording tells up to a moment."""
    scene, at_ms = reel.scene_at(time_ms), reel.wall_ms(time_ms)
    backend_ms = scene.snapshot.taken_ms if scene.snapshot is not None else 0
    return RecordedFacts(
        scene=scene,
        at_ms=at_ms,
        stops=tuple(stop for stop in reel.stops() if stop.time_ms <= time_ms),
        actions=tuple(entry for entry in reel.actions() if entry[0] <= at_ms),
        points=tuple(point for point in reel.history() if point.at_ms <= backend_ms),
        began_ms=reel.wall_ms(reel.first_ms),
        trouble=reel.trouble,
    )


def write_handover(reel: RecordingReader, time_ms: int, path: Path) -> None:
    """Write a hand-over note to a new file.

    Raises:
        BadInput: there is such a file already, or the folder cannot be written to.
    """
    save_text(handover(facts_until(reel, time_ms)), path)


def write_timeline(reel: RecordingReader, time_ms: int, path: Path) -> None:
    """Write a timeline to a new file.

    Raises:
        BadInput: there is such a file already, or the folder cannot be written to.
    """
    save_text(timeline(facts_until(reel, time_ms)), path)


def write_both(reel: RecordingReader, time_ms: int, folder: Path) -> Sequence[Path]:
    """Write both notes to new files in a folder; their paths.

    Raises:
        BadInput: there are such files already, or the folder cannot be written to.
    """
    facts = facts_until(reel, time_ms)
    snapshot = facts.scene.snapshot
    cluster = re.sub(r"[^A-Za-z0-9_-]", "_", snapshot.cluster_id if snapshot is not None else "")
    name = f"{cluster}-{file_time_text(facts.at_ms)}.md"
    paths = [folder / f"kshunt-handover-{name}", folder / f"kshunt-timeline-{name}"]
    for path, text in zip(paths, (handover(facts), timeline(facts)), strict=True):
        save_text(text, path)
    return paths
