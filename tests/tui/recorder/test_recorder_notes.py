"""Requests are recorded in words; notes for the person who takes over, and of what happened."""

from pathlib import Path

import pytest

from kshunt.backend.cli.main import main
from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
from kshunt.backend.domain.replicas.stuck_causes import Cause, Stuck
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.tui.feed.change_messages import answer_words
from kshunt.tui.feed.messages import ActionTaken
from kshunt.tui.feed.scene import Scene
from kshunt.tui.handover_notes.notes import RecordedFacts, handover, timeline
from kshunt.tui.handover_notes.writer import facts_until
from kshunt.tui.recorder.reader import RecordingReader
from tests.support.tui.replay import Recorded, recorded, scripted

MB = 1_000_000


def test_what_became_of_a_change_is_said_in_words() -> None:
    done, failed = Result("a-0", 0, "NONE", ""), Result("a-1", 60, "IN_PROGRESS", "")
    answer = ChangeAnswer(False, "op-2", (done, failed))
    assert answer_words(answer) == "operation op-2, 1 of 2 done, a-1: IN_PROGRESS"
    not_needed = Result("a-1", 84, "ELECTION_NOT_NEEDED", "")
    assert answer_words(ChangeAnswer(False, None, (done, not_needed))) == "2 of 2 done"
    assert answer_words(ChangeAnswer(False, "op-2", ())) == "operation op-2"
    assert answer_words(None) == "done"


async def cancelled(shown: Recorded) -> None:
    """Cancel every move, by the link of the dashboard."""
    partitions = [p for p, s in shown.backend.cluster.partitions.items() if s.copied]
    words = f"Cancel the move of {partitions[0]}"
    await shown.app.link.change(
        ActionTaken("sent", words, "ada@bastion-1", "wrong brokers"),
        lambda client: client.reassignments.cancel(partitions[:1]),
    )
    await shown.later(10)


async def test_actions_are_recorded_with_who_and_why(live: Recorded) -> None:
    live.time.now += 1
    await cancelled(live)
    reel = RecordingReader(live.recorder.paths)
    stages = [(action.stage, action.who, action.reason) for _, action in reel.actions()]
    assert stages == [
        ("sent", "ada@bastion-1", "wrong brokers"),
        ("answered", "ada@bastion-1", ""),
    ]
    facts = facts_until(reel, reel.last_ms)
    reel.close()
    assert "Sent by ada@bastion-1: Cancel the move of clickstream" in timeline(facts).replace(
        "\\", ""
    )
    await live.go("left_parenthesis")
    assert live.said.startswith("Sent by ada@bastion-1: Cancel the move of clickstream")


async def test_a_handover_says_what_runs_what_is_wrong_and_what_was_done(live: Recorded) -> None:
    live.time.now += 1
    await cancelled(live)
    reel = RecordingReader(live.recorder.paths)
    text = handover(facts_until(reel, reel.last_ms)).replace("\\", "")
    reel.close()
    for words in (
        "# Hand-over of cluster kSh-9xQmT4uB2vWcE0aLrg",
        "**op-1**, running",
        "by ada@bastion-1",
        "drain broker 4 before its disk is replaced",
        "Throttled to 25.0 MB/s.",
        "Broker 3",
        "Answered by ada@bastion-1: Cancel the move of",
        "Check that kshunt removes the throttles",
        "Broker 1: sends 25.0 MB/s, fetches 25.0 MB/s",
    ):
        assert words in text, words


async def test_a_handover_names_the_replica_that_a_step_is_about(tmp_path: Path) -> None:
    cluster = scripted()
    partition = next(p for p, s in cluster.partitions.items() if s.copied)
    broker = next(iter(cluster.partitions[partition].copied))
    cluster.stuck[partition, broker] = Stuck(partition, broker, Cause.COPY_TOO_SLOW)
    async with recorded(tmp_path, cluster) as shown:
        await shown.quiet()
        reel = RecordingReader(shown.recorder.paths)
        text = handover(facts_until(reel, reel.last_ms)).replace("\\", "")
        reel.close()
    assert f"- {partition} on broker {broker}: No throttle explains it:" in text


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ((50, 50), "Throttled to 50.0 MB/s now; it began with 25.0 MB/s."),
        ((5, 50), "Throttled to 5.00 MB/s to 50.0 MB/s now; it began with 25.0 MB/s."),
        ((None, 50), "Throttled to 50.0 MB/s now on some brokers; it began with 25.0 MB/s."),
        ((None, None), "Not throttled now; it began with 25.0 MB/s."),
    ],
    ids=["one", "several", "some", "none"],
)
async def test_a_handover_has_the_throttle_of_now(
    tmp_path: Path, rates: tuple[int | None, int | None], said: str
) -> None:
    cluster = scripted()
    for broker in cluster.racks:
        rate = rates[broker % 2]
        limit = None if rate is None else rate * MB
        cluster.rates[broker] = ThrottledRate(limit, limit)
    async with recorded(tmp_path, cluster) as shown:
        await shown.quiet()
        reel = RecordingReader(shown.recorder.paths)
        text = handover(facts_until(reel, reel.last_ms)).replace("\\", "")
        reel.close()
    assert said in text


async def test_a_timeline_has_times_incidents_and_plots(live: Recorded) -> None:
    reel = RecordingReader(live.recorder.paths)
    text = timeline(facts_until(reel, reel.last_ms)).replace("\\", "")
    reel.close()
    assert "| Broker 3 does not answer: connection refused | **incident** |" in text
    assert "## Bytes that remain" in text
    assert "*" * 5 in text
    assert max(map(len, text.partition("```text")[2].partition("```")[0].splitlines())) <= 78
    assert "| op-1 | ada@bastion-1 | move 6 partitions of 3 topics |" in text


def test_without_a_snapshot_a_note_says_so() -> None:
    facts = RecordedFacts(Scene(), 0, (), (), (), 0, ("x.kshunt is damaged.",))
    assert "Nothing was known about the cluster" in handover(facts)
    assert "Some facts could not be read: x.kshunt is damaged." in timeline(facts)


async def test_text_from_the_cluster_is_no_markdown(tmp_path: Path) -> None:
    cluster = scripted()
    cluster.down = {3: "| `rm` <b>\x1b[2J\n# boom"}
    async with recorded(tmp_path, cluster) as shown:
        await shown.quiet()
        reel = RecordingReader(shown.recorder.paths)
        facts = facts_until(reel, reel.last_ms)
        reel.close()
    for text in (handover(facts), timeline(facts)):
        assert "\x1b" not in text
        assert "\n# boom" not in text
        assert "<b>" not in text.replace("\\<b\\>", "")


async def test_a_key_writes_both_notes_and_never_over_another(
    live: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    monkeypatch.chdir(folder)
    await live.go("W")
    assert live.said.startswith("Written: kshunt-handover-")
    names = sorted(path.name for path in folder.iterdir())
    assert [name.split("-")[1] for name in names] == ["handover", "timeline"]
    before = {path: path.read_bytes() for path in folder.iterdir()}
    await live.go("W")
    assert "exists" in live.said
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    await live.go("left_square_bracket", "W")
    assert live.said.startswith("Written:")
    assert len(list(folder.iterdir())) == 4


async def test_the_command_writes_notes_of_a_file(
    live: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, note, line = str(live.recorder.paths[0]), tmp_path / "a.md", tmp_path / "b.md"
    assert main(["replay", file, "--handover", str(note), "--timeline", str(line)]) == 0
    assert capsys.readouterr().out == f"Written: {note}\nWritten: {line}\n"
    assert note.read_text().startswith("# Hand-over")
    assert line.read_text().startswith("# Timeline")
    assert main(["replay", file, "--handover", str(note)]) == 1
    assert "exists" in capsys.readouterr().err
    assert main(["replay", str(note)]) == 1
    assert "is not a recording of kshunt" in capsys.readouterr().err
