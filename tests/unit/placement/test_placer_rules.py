"""Placement by rules: which rule decides, where it places, and mistakes in the file."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kshunt.backend.errors import ConfigError
from kshunt.backend.placement.by_rules import RulesPlacer
from kshunt.backend.placement.placer import ReplicaPlacementFailed, load_placer
from kshunt.backend.placement.rules_file import parse_rules
from tests.support.placement.placers import ask, broker, in_racks

RULES = """\
# Payments stay on the fast brokers.
[[rule]]
topics = ["payments.", "ledger."]
brokers = [0, 1, 2]
min_replicas = 3
max_replicas = 3

[[rule]]
topics = ["logs."]
principals = ["User:ops", "User:audit"]
racks = ["b"]

[[rule]]
principals = ["User:guest"]
racks = ["c"]
max_replicas = 2

[default]
racks = ["a", "b"]
"""

# Brokers 0 to 2 in rack a, 3 and 4 in b, 5 and 6 in c.
BROKERS = in_racks(3, 2, 2)


def placer(folder: Path, text: str = RULES) -> RulesPlacer:
    path = folder / "rules.toml"
    path.write_text(text)
    made = RulesPlacer(Random(3))
    made.configure({"kshunt.placer.rules": str(path)})
    return made


@pytest.mark.parametrize(
    ("topic", "principal", "num_replicas", "expected"),
    [
        ("payments.eu", None, 3, {0, 1, 2}),
        ("ledger.x", "User:guest", 3, {0, 1, 2}),
        ("logs.web", "User:audit", 2, {3, 4}),
        ("logs.web", "User:guest", 2, {5, 6}),
        ("logs.web", "User:other", 2, {0, 1, 2, 3, 4}),
        ("logs.web", None, 2, {0, 1, 2, 3, 4}),
        ("other", "User:guest", 1, {5, 6}),
        (None, None, 1, {0, 1, 2, 3, 4}),
        ("payment", None, 1, {0, 1, 2, 3, 4}),
    ],
)
def test_the_first_rule_that_fits_decides(
    tmp_path: Path, topic: str | None, principal: str | None, num_replicas: int, expected: set[int]
) -> None:
    placed = ask(placer(tmp_path), 30, num_replicas, BROKERS, topic=topic, principal=principal)
    assert {replica for replicas in placed for replica in replicas} == expected


def test_without_a_default_every_broker_is_meant(tmp_path: Path) -> None:
    placed = ask(placer(tmp_path, ""), 40, 3, BROKERS, topic="t")
    assert {replica for replicas in placed for replica in replicas} == set(range(7))


def test_brokers_and_racks_of_a_rule_both_hold(tmp_path: Path) -> None:
    both = '[[rule]]\ntopics = ["t"]\nbrokers = [0, 3, 4]\nracks = ["b", "c"]\n'
    placed = ask(placer(tmp_path, both), 9, 1, BROKERS, topic="t")
    assert {replica for replicas in placed for replica in replicas} == {3, 4}


@pytest.mark.parametrize(
    ("topic", "num_replicas", "words"),
    [
        ("payments.eu", 2, "Topic payments.eu: the rule in line 2 allows 3 replica(s), not 2."),
        ("payments.eu", 4, "allows 3 replica(s), not 4."),
        ("t", 3, "Topic t of User:guest: the rule in line 13 allows 1 to 2 replica(s), not 3."),
    ],
)
def test_a_rule_says_how_many_replicas(
    tmp_path: Path, topic: str, num_replicas: int, words: str
) -> None:
    principal = "User:guest" if topic == "t" else None
    with pytest.raises(ReplicaPlacementFailed) as failed:
        ask(placer(tmp_path), 1, num_replicas, BROKERS, topic=topic, principal=principal)
    assert words in str(failed.value)
    least = '[[rule]]\ntopics = ["t"]\nmin_replicas = 2\n'
    with pytest.raises(ReplicaPlacementFailed, match=r"allows 2 or more replica\(s\), not 1"):
        ask(placer(tmp_path, least), 1, 1, BROKERS, topic="t")


def test_a_rule_that_leaves_too_few_brokers_never_falls_back(tmp_path: Path) -> None:
    given = [broker(0, "a"), broker(3, "b"), broker(4, "b", fenced=True)]
    made = placer(tmp_path)
    with pytest.raises(ReplicaPlacementFailed) as failed:
        ask(made, 1, 3, given, topic="payments.eu")
    assert str(failed.value) == (
        "Topic payments.eu: the rule in line 2 leaves 1 broker(s) for 3 replica(s); these are "
        "up: 0. Nothing was placed. See kshunt.placer.rules."
    )
    with pytest.raises(ReplicaPlacementFailed, match="these are up: none"):
        ask(made, 1, 1, given[:1] + given[2:], topic="logs.", principal="User:ops")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[rule]]\ntopics =\n", "f is not valid TOML: .*line 2"),
        ("\n[[rules]]\n", "f, line 2: 'rules' is unknown"),
        ("rule = 3\n", "f is not a file of rules"),
        ("rule = [3]\n", "f is not a file of rules"),
        ("default = 3\n", "f is not a file of rules"),
        ("[[rule]]\nbrokers = [1]\n", "f, line 1: this rule matches everything"),
        (
            '[[rule]]\ntopics = ["a"]\n\n[[rule]]\ntopics = ["b"]\nbroker = [1]\n',
            "f, line 6: 'broker' is unknown. Known: topics, principals, brokers",
        ),
        ('[[rule]]\ntopics = ["a"]\nbrokers = ["1"]\n', r"f, line 3: brokers .* Write \[1, 2"),
        ('[[rule]]\ntopics = ["a"]\nbrokers = [true]\n', "f, line 3: brokers cannot be"),
        ('[[rule]]\ntopics = ["a"]\nbrokers = []\n', r"f, line 3: brokers cannot be \[\]"),
        ('[[rule]]\ntopics = ["a"]\nracks = "a"\n', "f, line 3: racks cannot be 'a'"),
        ('[[rule]]\ntopics = ""\n', 'f, line 2: topics cannot be .* Write ."one", "another"'),
        (
            '[[rule]]\nprincipals = ["bob"]\n',
            "f, line 2: 'bob' is not a principal. Write User:name",
        ),
        ("[default]\nmin_replicas = 0\n", "f, line 2: min_replicas cannot be 0"),
        ("[default]\nmin_replicas = 3\nmax_replicas = 2\n", "f, line 2: 3 is more than max_"),
        ('[default]\ntopics = ["a"]\n', "f, line 2: 'topics' is unknown"),
        (
            '[[rule]]\ntopics = ["pay"]\n[[rule]]\ntopics = ["payments."]\n',
            "f, line 3: this rule has no effect, because the rule in line 1 matches",
        ),
        (
            '[[rule]]\nprincipals = ["User:a", "User:b"]\n'
            '[[rule]]\ntopics = ["t"]\nprincipals = ["User:b"]\n',
            "f, line 3: this rule has no effect",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_rules(text, "f")


@pytest.mark.parametrize(
    "text",
    [
        '[[rule]]\ntopics = ["payments."]\n[[rule]]\ntopics = ["pay"]\n',
        '[[rule]]\ntopics = ["a"]\nprincipals = ["User:a"]\n[[rule]]\ntopics = ["a"]\n',
        '[[rule]]\ntopics = ["a"]\n[[rule]]\nprincipals = ["User:a"]\n',
        '[[rule]]\nprincipals = ["User:a"]\n[[rule]]\ntopics = ["a"]\n',
    ],
)
def test_a_wider_rule_may_follow_a_narrower_one(text: str) -> None:
    assert len(parse_rules(text, "f").rules) == 2


def test_a_file_that_is_not_there_is_an_error_of_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_placer("rules", {"kshunt.placer.rules": str(tmp_path / "none.toml")})
