"""RulesPlacer: topics go where a file says, by their prefix or by who creates them.

Goals
    1. Place partitions differently for different users and kinds of topics (KIP-660, Motivation).
    2. On the brokers that a rule leaves, spread as Kafka does (`striped`).
    3. Refuse a number of replicas that the rule does not allow, before anything is there.

Constraints
    - The first rule that fits decides (`rules` has the file's form). Its brokers come before
      racks: where they are all in one rack, so are the replicas.
    - Where a rule leaves too few brokers nothing is placed: it never falls back to others.
    - KIP-660's `place` knows neither topic nor principal, so both come by `describe` before. Who
      asks without it gets the default.

Algorithm
    Find the rule, check its number of replicas, keep the brokers that it allows, and let
    `StripedReplicaPlacer` place on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

from kshunt.backend.errors import ConfigError
from kshunt.backend.placement.placer import ReplicaPlacementFailed, UsableBroker
from kshunt.backend.placement.requirements import check_demand
from kshunt.backend.placement.rules_file import Rule, Rules, parse_rules
from kshunt.backend.placement.striped import StripedReplicaPlacer

RULES: Final = "kshunt.placer.rules"


class RulesPlacer:
    """Brokers by the topic's prefix or by the principal, from a file of rules."""

    def __init__(self, random: Random | None = None) -> None:
        """A source of one's own makes the placement repeatable."""
        self._striped = StripedReplicaPlacer(random)
        self._rules = Rules()
        self._topic: str | None = None
        self._principal: str | None = None

    def configure(self, configs: Mapping[str, str]) -> None:
        """Read the file that `kshunt.placer.rules` names; it is not read again.

        Raises:
            ConfigError: it is not named, cannot be read, or has a mistake.
        """
        name = configs.get(RULES, "").strip()
        if not name:
            raise ConfigError(f"{RULES} is not set.", advice="Name a TOML file of rules.")
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{RULES}: {name} cannot be read: {error}.") from None
        self._rules = parse_rules(text, name)

    def close(self) -> None:
        """It holds nothing."""

    def describe(self, topic: str | None, principal: str | None) -> None:
        """Take what is placed, and for whom (`RequestAware`)."""
        self._topic, self._principal = topic, principal

    def follow(self, existing: Sequence[Sequence[int]]) -> None:
        """Continue where the topic's partitions end (`ExistingReplicasAware`)."""
        self._striped.follow(existing)

    def candidates(
        self, num_replicas: int, brokers: Sequence[UsableBroker]
    ) -> Sequence[UsableBroker]:
        """The brokers that the rule allows (`BrokerSelecting`).

        Raises:
            InvalidReplicationFactor: even with every one they would be too few.
            ReplicaPlacementFailed: they are too few or all fenced, the rule does not allow this
                number of replicas, or only some brokers have a rack.
        """
        check_demand(num_replicas, brokers)
        rule = self._rules.rule_for(self._topic, self._principal)
        self._check_count(rule, num_replicas)
        allowed = [broker for broker in brokers if rule.allows(broker)]
        if len(allowed) >= num_replicas and not all(broker.fenced for broker in allowed):
            return allowed
        ids = ", ".join(str(one.id) for one in allowed if not one.fenced) or "none"
        raise ReplicaPlacementFailed(
            f"{self._what()}: {rule} leaves {len(allowed)} broker(s) for {num_replicas} "
            f"replica(s); these are up: {ids}.",
            advice=f"Nothing was placed. See {RULES}.",
        )

    def place(
        self,
        start_partition: int,
        num_partitions: int,
        num_replicas: int,
        brokers: Iterator[UsableBroker],
    ) -> list[list[int]]:
        """See `ReplicaPlacer.place`.

        Raises:
            InvalidReplicationFactor: with Kafka's words.
            ReplicaPlacementFailed: see `candidates`.
        """
        allowed = self.candidates(num_replicas, list(brokers))
        return self._striped.place(start_partition, num_partitions, num_replicas, iter(allowed))

    def _check_count(self, rule: Rule, num_replicas: int) -> None:
        if not rule.allows_count(num_replicas):
            raise ReplicaPlacementFailed(
                f"{self._what()}: {rule} allows {rule.counts} replica(s), not {num_replicas}.",
                advice=f"Nothing was placed. See {RULES}.",
            )

    def _what(self) -> str:
        topic = "A topic" if self._topic is None else f"Topic {self._topic}"
        return topic if self._principal is None else f"{topic} of {self._principal}"
