"""What topics are configured with: asked for when first looked at, kept for a while."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.cluster.config_names import ConfigSource
from kshunt.backend.errors import KshuntError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kshunt.backend.api.client.backend_client import BackendClient
    from kshunt.backend.domain.topics.configs import TopicConfig

TOPICS_CACHED: Final = 64
AGE_MOST_S: Final = 60.0
"""The dashboard asks again when an answer is older: somebody may have changed the topic."""
AGE_OF_FAILURE_S: Final = 10.0


class TopicConfigCache:
    """Answers and failures by topic, each with the time at which it came."""

    def __init__(
        self,
        ask: Callable[
            [Callable[[BackendClient], tuple[TopicConfig, ...]]],
            Awaitable[tuple[TopicConfig, ...]],
        ],
        now_s: Callable[[], float],
    ) -> None:
        self._ask = ask
        self._now_s = now_s
        self._known: dict[str, tuple[float, tuple[TopicConfig, ...] | None, str]] = {}
        self._open: set[str] = set()

    def known(self, topic: str) -> tuple[tuple[TopicConfig, ...] | None, str]:
        """The topic's configuration, or None and why it is not known; empty while it is asked."""
        _, configs, reason = self._known.get(topic, (0.0, None, ""))
        return configs, reason

    def wants(self, topic: str) -> bool:
        """Whether the topic has to be asked for: never, or too long ago."""
        if topic in self._open:
            return False
        if topic not in self._known:
            return True
        at_s, configs, _ = self._known[topic]
        return self._now_s() - at_s > (AGE_OF_FAILURE_S if configs is None else AGE_MOST_S)

    async def fetch(self, topic: str) -> None:
        """Ask for a topic, and keep what comes of it."""
        if topic in self._open:
            return
        self._open.add(topic)
        try:
            found = await self._ask(lambda client: client.topics.configs(topic))
            self._remember(topic, found, "")
        except KshuntError as error:
            self._remember(topic, None, error.message)
        finally:
            self._open.discard(topic)

    def forget(self) -> None:
        """This is another cluster: topics of the same name are others."""
        self._known.clear()

    def _remember(self, topic: str, configs: tuple[TopicConfig, ...] | None, reason: str) -> None:
        self._known.pop(topic, None)
        self._known[topic] = (self._now_s(), configs, reason)
        while len(self._known) > TOPICS_CACHED:
            del self._known[next(iter(self._known))]


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What is known of a topic's configuration."""

    configs: tuple[TopicConfig, ...] | None = None
    """None while it is not known."""
    reason: str = ""
    """Why it is not known; empty while it is being asked for."""

    @property
    def words(self) -> str:
        """The settings that are not Kafka's own, the topic's first."""
        if self.configs is None:
            return f"? {self.reason}" if self.reason else "asking"
        set_here = [one for one in self.configs if not one.is_default]
        set_here.sort(key=lambda one: (one.source != ConfigSource.DYNAMIC_TOPIC, one.name))
        said = [setting_text(one) for one in set_here]
        return ", ".join(said) or "nothing differs from Kafka's defaults"


def setting_text(config: TopicConfig) -> str:
    """`retention.ms=600000`, with where it is set unless that is the topic itself."""
    value = "(hidden)" if config.value is None else config.value
    return f"{config.name}={value}{_source(config)}"


def _source(config: TopicConfig) -> str:
    """Where it is set, unless it is the topic itself."""
    if config.source == ConfigSource.DYNAMIC_TOPIC:
        return ""
    return " (broker)" if "BROKER" in config.source else f" ({config.source.lower()})"
