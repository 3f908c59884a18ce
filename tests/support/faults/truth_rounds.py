"""Rounds on real brokers: one throttled move, and what others and faults do to it meanwhile.

Goals
    After each round the cluster is as the edits of everybody make it, and no line of the audit is
    untrue (`tests.support.audit_checker`).
Constraints
    The brokers ask who kshunt is and obey ACLs, so that a refusal is the cluster's own. This module
    computes what to expect from the edits alone. A round is its seed.
Algorithm
    A round has a topic and rates of an operator's, and a start that may be refused first. Up to
    four events follow, drawn from edits of rates, lists and moves, refusals, journal faults, kills
    and steering. Then the round ends. A rate ends as the last that somebody else set while it was
    not put back, or else as before. A replica that somebody listed stays listed, one that somebody
    took out of the prior list does not come back. A partition is where the last word about it wants
    it.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka.admin import (
    ResourceType,
)

from kshunt.backend.domain.cluster.metadata import TopicPartition
from kshunt.backend.domain.operations.change import Change
from kshunt.backend.domain.operations.operation import Operation
from kshunt.backend.domain.reassignment.answers import ChangeAnswer
from kshunt.backend.domain.reassignment.plan import ReassignmentPlan
from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.errors import KshuntError
from tests.support.audit_checker import AuditedCluster, Json, RequestedMove, Setting, problems
from tests.support.faults.truth_ground import (
    ALTER,
    ALTER_CONFIGS,
    BROKERS,
    LIST_KEYS,
    RATE_KEYS,
    WRITE_JOURNAL,
    Ground,
)
from tests.support.topics import create_topic, produce
from tests.support.waiting import wait_until

PARTITIONS, STAYING = 4, 3
"""The last partition is never moved."""
SLOW, FAST = 2_000, 1_000_000_000
DEADLINE_S: Final = 120.0


@dataclass
class Expected:
    """What the edits of everybody come to, for one setting."""

    base: str | None
    pending: str | None = None
    edited: bool = False

    @property
    def value(self) -> str | None:
        return self.pending if self.edited else self.base

    def edit(self, value: str | None) -> None:
        self.pending, self.edited = value, True

    def accept(self) -> None:
        """What somebody else set is what comes back."""
        self.base, self.edited = self.value, False

    def reapply(self) -> None:
        """It was put back: what somebody else set does not come back."""
        self.edited = False


@dataclass
class Round:
    """One round; `problems` is what was wrong."""

    ground: Ground
    seed: int
    log: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    overwritten: int = 0
    """Rates of somebody else that came between the last reading and the write."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.topic = f"round-{self.seed}"
        self.rates: dict[tuple[int, str], Expected] = {}
        self.lists: dict[str, set[str]] = {key: set() for key in LIST_KEYS}
        self.where: dict[int, tuple[int, ...]] = {}
        self.wanted: dict[int, set[frozenset[int]]] = {}
        self.accepted: set[tuple[int, str]] = set()
        """Rates of somebody else's that an operator chose to keep."""
        self.edited_late: set[Setting] = set()
        """What somebody set when the audit's last line may have been there already."""

    # The story

    def run(self) -> list[str]:
        """Play it; what was wrong."""
        self.process, self.client = self.ground.backend()
        try:
            self._play()
        except (AssertionError, KshuntError) as error:
            self.problems.append(f"{type(error).__name__}: {error}")
        finally:
            with suppress(KshuntError):
                self._clean()
            self.client.close()
            self.process.terminate()
            self.process.join(20)
            self.process.kill()
            self.process.join()
        return self.problems

    def _play(self) -> None:
        self._prepare()
        if self.random.random() < 0.35:
            self._refused_start()
        self._start()
        for _ in range(self.random.randint(1, 4)):
            if not self._running():
                break
            event = self.random.choice(self._events())
            self.log.append(event.__name__.strip("_"))
            event()
        self._finish()
        self._check()

    def _events(self) -> Sequence[Callable[[], None]]:
        steering = (self._cancel_some, self._cancel_refused, self._pause_and_resume)
        edits = (self._edit_rate, self._edit_rate, self._edit_list, self._cancel_elsewhere)
        faults = (self._kill, self._deny_journal, self._reapply_or_accept, self._retarget)
        if self.random.random() < 0.15:
            return (self._fill_disk,)
        return (*steering, *edits, *faults)

    def _prepare(self) -> None:
        self.where = {number: tuple(self.random.sample(BROKERS, 2)) for number in range(PARTITIONS)}
        prior = dict.fromkeys(LIST_KEYS, f"{STAYING}:{self.where[STAYING][0]}")
        create_topic(self.ground.servers, self.topic, list(self.where.values()), prior)
        self.lists = {key: {pair} for key, pair in prior.items()}
        for number in range(STAYING):
            produce(self.ground.servers, self.topic, 40, 100_000, number)
        for broker in BROKERS:
            for key in RATE_KEYS:
                value = self.random.choice((None, self.random.randint(50, 99) * 1_000_000))
                self.ground.rate(broker, key, value)
                self.rates[broker, key] = Expected(None if value is None else str(value))
        default = self.random.choice((None, "90000000"))
        self.ground.set(ResourceType.BROKER, "", RATE_KEYS[0], default)
        self.ground.shown(
            {cell: None if r.base is None else int(r.base) for cell, r in self.rates.items()}
        )

    def _plan(self) -> dict[int, tuple[int, ...]]:
        plan: dict[int, tuple[int, ...]] = {}
        for number in range(STAYING):
            here = self.where[number]
            (new,) = set(BROKERS) - set(here)
            plan[number] = (new, here[1]) if self.random.random() < 0.5 else (here[0], new)
        return plan

    def _asked(self, plan: Mapping[int, tuple[int, ...]]) -> ChangeAnswer:
        targets = {TopicPartition(self.topic, n): target for n, target in plan.items()}
        answer: ChangeAnswer | None = None

        def takes_plan() -> bool:
            nonlocal answer
            try:
                answer = self.client.reassignments.start(
                    ReassignmentPlan(targets), Change(who="a round"), throttle_bytes_per_s=SLOW
                )
            except KshuntError as refused:
                if "acts" in str(refused) or "Journal" in str(refused):
                    return False
                raise
            return True

        wait_until(takes_plan, DEADLINE_S, "a backend takes the plan")
        assert answer is not None
        return answer

    def _refused_start(self) -> None:
        """The cluster refuses the move, or the rates that come before it."""
        acl = self.random.choice((ALTER, ALTER_CONFIGS))
        self.log.append(f"start without {acl[2].name}")
        with self.ground.denied(acl):
            answer = self._asked(self._plan())
            if any(one.error_code == 0 for one in answer.results):
                self.problems.append(f"a refused start succeeded: {answer.results}")
            if acl is ALTER:
                self._ended(answer.operation_id or "", ("failed",))
                self._compare("after a refused start")
        self._ended(answer.operation_id or "", ("failed",))
        self._compare("after a refused start that may be taken back")

    def _start(self) -> None:
        self.plan = self._plan()
        self.wanted = {n: {frozenset(target)} for n, target in self.plan.items()}
        answer = self._asked(self.plan)
        if answer.failures:
            self.problems.append(f"a start failed: {answer.failures}")
        self.operation = answer.operation_id or ""
        self.log.append("start")

    # What is done to it

    def _edit_rate(self) -> None:
        broker, key = self.random.choice(sorted(self.rates))
        one = self.rates[broker, key]
        gone = one.value is not None and self.random.random() < 0.3
        value = None if gone else self.random.randint(10_000_000, 49_999_999)
        with self._quiet(("broker", str(broker), key)):
            self.ground.rate(broker, key, value)
            one.edit(None if value is None else str(value))

    def _edit_list(self) -> None:
        key = self.random.choice(LIST_KEYS)
        with self._quiet(("topic", self.topic, key)):
            present = set(self.ground.own(ResourceType.TOPIC, self.topic).get(key, "").split(","))
            present -= {""}
            if self.random.random() < 0.5 and self.lists[key]:
                gone = self.random.choice(sorted(self.lists[key]))
                present.discard(gone)
                self.lists[key].discard(gone)
            else:
                pair = f"{STAYING}:{self.where[STAYING][1]}"
                present.add(pair)
                self.lists[key].add(pair)
            self.ground.set(ResourceType.TOPIC, self.topic, key, ",".join(sorted(present)) or None)

    def _cancel_elsewhere(self) -> None:
        number = self.random.randrange(STAYING)
        self.ground.move(self.topic, number, None)
        self.wanted[number].add(frozenset(self.where[number]))

    def _retarget(self) -> None:
        """Somebody else moves a partition back the other way."""
        number = self.random.randrange(STAYING)
        here = self.where[number]
        (new,) = set(BROKERS) - set(here)
        other = (here[1], new) if new in self.plan[number][:1] else (new, here[1])
        self.ground.move(self.topic, number, other)
        self.wanted[number].add(frozenset(other))

    def _cancel_some(self) -> None:
        numbers = self.random.sample(range(STAYING), self.random.randint(1, STAYING))
        wanted = [TopicPartition(self.topic, n) for n in numbers]
        for number in numbers:
            self.wanted[number].add(frozenset(self.where[number]))
        self._tried(lambda: self.client.reassignments.cancel(wanted, Change(who="a round")))

    def _cancel_refused(self) -> None:
        with self.ground.denied(ALTER):
            wanted = [TopicPartition(self.topic, n) for n in range(STAYING)]
            self._tried(lambda: self.client.reassignments.cancel(wanted, Change(who="a round")))

    def _pause_and_resume(self) -> None:
        self._tried(lambda: self.client.operations.pause(self.operation, Change(who="a round")))
        if self.random.random() < 0.4:
            self._kill()
        self._resume()

    def _resume(self) -> None:
        def resumed() -> bool:
            state = self._state()
            if state in ("pausing", "paused"):
                with suppress(KshuntError):
                    self.client.operations.resume(self.operation, Change(who="a round"))
            return state not in ("pausing", "paused")

        wait_until(resumed, DEADLINE_S, "it goes on")

    def _reapply_or_accept(self) -> None:
        ours = self.random.random() < 0.5
        drift = [one for one in self.client.throttles.drift() if self.operation in one.operations]
        rates = [one for one in drift if one.setting in RATE_KEYS]
        if not rates:
            return
        self._tried(
            lambda: self.client.throttles.reapply_or_accept_drift(
                [r.id for r in rates], Change(who="r"), ours=ours
            )
        )
        for one in rates:
            place = (one.broker or 0, one.setting)
            cell = self.rates[place]
            self.accepted |= set() if ours else {place}
            cell.reapply() if ours else cell.accept()

    def _kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.client.close()
        self.process, self.client = self.ground.backend()

    def _fill_disk(self) -> None:
        self.ground.fill_disk()

    def _deny_journal(self) -> None:
        """The journal takes nothing for a while; a change that is asked for is refused."""
        with self.ground.denied(WRITE_JOURNAL):
            with suppress(KshuntError):
                self.client.operations.pause(self.operation, Change(who="a round"))
            pause_s(self.random.uniform(0.5, 3.0))
        self._resume()

    def _tried(self, what: Callable[[], ChangeAnswer]) -> None:
        """Ask until a backend acts; what cannot be done any more is not done."""

        def done() -> bool:
            try:
                what()
            except KshuntError as refused:
                words = str(refused)
                return not ("acts" in words or "Journal" in words)
            return True

        wait_until(done, DEADLINE_S, "it is asked for")

    @contextmanager
    def _quiet(self, setting: Setting) -> Iterator[None]:
        """Edits come while the operation runs: when it lifts, `test_rates_at_the_lift` has them."""
        yield
        if not self._running():
            self.edited_late.add(setting)
            self.log.append("(the edit may have come at the end)")

    # The end

    def _operation(self) -> Operation | None:
        found: Operation | None = None

        def answers() -> bool:
            nonlocal found
            try:
                found = next(
                    (one for one in self.client.operations.list() if one.id == self.operation), None
                )
            except KshuntError:
                return False
            return found is not None

        wait_until(answers, DEADLINE_S, "the backend knows the operation")
        return found

    def _state(self) -> str:
        found = self._operation()
        return "" if found is None else found.state.value

    def _running(self) -> bool:
        return self._state() not in ("lifting", "") and not self._is_over()

    def _is_over(self) -> bool:
        found = self._operation()
        return found is not None and found.state.ended

    def _finish(self) -> None:
        rates = {broker: ThrottledRate(FAST, FAST) for broker in BROKERS}
        hurried = False

        def over() -> bool:
            nonlocal hurried
            state = self._state()
            if state in ("pausing", "paused"):
                with suppress(KshuntError):
                    self.client.operations.resume(self.operation, Change(who="a round"))
            if state == "running" and not hurried:
                # An operator's rate is a rate of the operation's while it runs.
                with suppress(KshuntError):
                    hurried = self._hurry(rates)
            return self._is_over()

        wait_until(over, DEADLINE_S, f"the operation ends: {self.log}")

    def _hurry(self, rates: Mapping[int, ThrottledRate]) -> bool:
        if not self.client.reassignments.list():
            # It is about to end: a rate that is set then is an operator's own, and stays.
            return False
        held = {one.broker for one in self.client.throttles.owned()}
        chosen = {broker: rate for broker, rate in rates.items() if broker in held}
        if not chosen:
            return False
        answer = self.client.throttles.alter_rates(chosen, Change(who="a round"))
        late = not self._running()
        for (broker, key), one in self.rates.items():
            if broker in chosen:
                one.accept()
                if late:
                    # It ended meanwhile: the rate came before its lift, or is an operator's own.
                    self.edited_late.add(("broker", str(broker), key))
            if broker in chosen and (broker, key) in self.accepted:
                # The operation wants no rate there any more, so this one is an operator's own.
                one.base = str(FAST)
        return not answer.failures

    def _ended(self, operation: str, states: Sequence[str]) -> None:
        state = ""

        def over() -> bool:
            nonlocal state
            found = next((o for o in self.client.operations.list() if o.id == operation), None)
            state = "" if found is None else found.state.value
            return found is not None and found.state.ended

        wait_until(over, DEADLINE_S, f"operation {operation} ends")
        if state not in states:
            self.problems.append(f"operation {operation} is {state}, not {states}")

    # What must be so

    def _expected(self) -> dict[Setting, str]:
        found: dict[Setting, str] = {}
        for (broker, key), one in self.rates.items():
            if one.value is not None:
                found["broker", str(broker), key] = one.value
        for key, pairs in self.lists.items():
            if pairs:
                found["topic", self.topic, key] = ",".join(sorted(pairs))
        return found

    def _compare(self, when: str) -> AuditedCluster:
        """Settings, once the brokers show them."""
        wanted, amiss = self._expected(), ["not looked at"]
        found = self.ground.cluster(self.topic)

        def as_expected() -> bool:
            nonlocal found
            found = self.ground.cluster(self.topic)
            there = {s: ",".join(sorted(v.split(","))) for s, v in found.settings.items()}
            amiss[:] = [
                f"{when}: {setting} is {there.get(setting)}, not {wanted.get(setting)}"
                for setting in sorted(wanted.keys() | there.keys())
                if wanted.get(setting) != there.get(setting)
                and not (setting in self.edited_late and there.get(setting) == str(FAST))
            ]
            return not amiss

        with suppress(AssertionError):
            wait_until(as_expected, 20.0, "the settings are as they must be")
        self.problems += amiss
        return found

    def _check(self) -> None:
        found = self._compare("at the end")
        for number in range(STAYING):
            at = frozenset(found.replicas[self.topic, number])
            if at not in self.wanted[number]:
                self.problems.append(f"partition {number} is at {sorted(at)}")
        lines = self._lines()
        moves = {
            (self.topic, n): RequestedMove(self.where[n], target) for n, target in self.plan.items()
        }
        self.problems += problems(
            lines, found, {self.operation: moves}, edited_since=self.edited_late
        )

    def _lines(self) -> list[Json]:
        """The audit's lines of this round's topic and of what was asked since it began."""
        every = self.ground.lines()
        ids = [line["operation_id"] for line in every]
        first = next(
            (at for at, line in enumerate(every) if self.topic in json.dumps(line["touched"])), 0
        )
        known = {id for id in ids[first:] if id and id not in set(ids[:first])}
        return [line for line in every[first:] if line["operation_id"] in known]

    def _clean(self) -> None:
        for broker in BROKERS:
            for key in RATE_KEYS:
                self.ground.rate(broker, key, None)
        self.ground.set(ResourceType.BROKER, "", RATE_KEYS[0], None)
        for number in range(STAYING):
            self.ground.move(self.topic, number, None)
        self.ground.delete(self.topic)


def pause_s(seconds: float) -> None:
    """Let the cluster be as it is for a while."""
    threading.Event().wait(seconds)


def rounds_wanted(default: int) -> int:
    """How many rounds: `KSHUNT_TRUTH_ROUNDS`."""
    return int(os.environ.get("KSHUNT_TRUTH_ROUNDS", default))


def first_seed() -> int:
    """`KSHUNT_TRUTH_SEED`; the same rounds each time where it is not set."""
    return int(os.environ.get("KSHUNT_TRUTH_SEED", 7_000))
