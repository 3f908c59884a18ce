"""The application as its screens know it: what a key may bring about, and the time that is shown.

`kshunt.tui.app.KshuntApp` is it. Workflows open screens, and screens ask for workflows; so screens
know workflows by what they can be asked for alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from kshunt.tui.data.host import Host

if TYPE_CHECKING:
    from textual.screen import Screen

    from kshunt.backend.domain.cluster.metadata import TopicPartition
    from kshunt.backend.domain.operations.approval import ShownProposal
    from kshunt.backend.domain.operations.operation import Operation
    from kshunt.backend.domain.throttles.configs import ThrottledRate
    from kshunt.backend.domain.throttles.owners import ShownDrift, ShownOrphan
    from kshunt.tui.data.playback import Playback
    from kshunt.tui.data.polling import Polling
    from kshunt.tui.settings import SettingValue
    from kshunt.tui.shell.contexts import Contexts
    from kshunt.tui.shell.own_settings import OwnSettings
    from kshunt.tui.shell.theme_manager import ThemeManager
    from kshunt.tui.tables.model import RowKey
    from kshunt.tui.tables.targets import ReturnPoint

OperationVerb = Literal["pause", "resume", "cancel", "undo"]
"""What steers an operation."""


class Changes(Protocol):
    """What changes the cluster, once it was looked at and agreed to:
    `kshunt.tui.changes.workflows`."""

    def reassign(self) -> None: ...
    def plan(self, *, brokers: Sequence[int] = (), topics: Sequence[str] = ()) -> None: ...
    def cancel(self, partitions: Sequence[TopicPartition] | None) -> None: ...
    def elect(self, partitions: Sequence[TopicPartition] | None) -> None: ...
    def edit_rates(self, brokers: Sequence[int] | None) -> None: ...
    def set_rates(self, rates: Mapping[int, ThrottledRate], done: Callable[[], None]) -> None: ...
    def edit_lists(self, topic: str) -> None: ...
    def shrink(self, topic: str) -> None: ...
    def alter(self, topic: str) -> None: ...
    def confirm_shrink(self, operation: Operation) -> None: ...
    def steer(self, operation: Operation, verb: OperationVerb) -> None: ...
    def abandon(self, operation: Operation) -> None: ...
    def decide_drift(self, drift: Sequence[ShownDrift], *, ours: bool) -> None: ...
    def remove_orphans(self, orphans: Sequence[ShownOrphan], *, every: bool = False) -> None: ...
    def adopt(self) -> None: ...
    def export(self, operation: Operation | None) -> None: ...
    def approve(self, proposal: ShownProposal) -> None: ...


class RateFader(Protocol):
    """Rates that follow the keys: `kshunt.tui.changes.fader`."""

    def confirm(self, brokers: Sequence[int]) -> None: ...
    def step(self, brokers: Sequence[int], *, up: bool) -> bool: ...
    def take_back(self) -> None: ...


class Others(Protocol):
    """What other people see: `kshunt.tui.changes.teamwork`."""

    def here(self) -> None: ...
    def claim(self, operation: Operation) -> None: ...
    def remark(self, operation: Operation) -> None: ...
    def proposals(self) -> None: ...


class Dashboard(Host):
    """See the module's text."""

    playback: Playback
    polling: Polling
    themes: ThemeManager
    own_settings: OwnSettings
    """Which settings hold."""
    cluster_name: str
    """What the operator calls the cluster; empty where only its id names it."""
    contexts: Contexts | None
    """Other clusters that can be opened from here; None where this session has one cluster."""
    return_points: dict[str, ReturnPoint]
    """By a view to which a line of another view led: that other view."""

    @property
    @abstractmethod
    def workflows(self) -> Changes:
        """What changes the cluster."""

    @property
    @abstractmethod
    def fader(self) -> RateFader:
        """Rates that follow the keys."""

    @property
    @abstractmethod
    def teamwork(self) -> Others:
        """What others see."""

    @property
    @abstractmethod
    def view(self) -> Screen[None]:
        """The view in sight, perhaps below a dialogue."""

    @abstractmethod
    def keep_setting(self, name: str, value: SettingValue | None) -> None:
        """Write down what the operator chose, for the next dashboard; None: the default."""

    @abstractmethod
    async def change_setting(self, name: str, value: SettingValue | None) -> None:
        """Write another value into the file, and let it hold where that can be; None: the default.

        Raises:
            ConfigError: it cannot be written. Nothing has changed.
        """

    @abstractmethod
    def clear_marks(self) -> None:
        """Nothing is marked in the view in sight."""

    @abstractmethod
    def hold_row(self) -> None:
        """The cursor of the view in sight stays on its row, whatever comes before it."""

    @abstractmethod
    def show_row(self, key: RowKey) -> None:
        """The cursor of the view in sight goes to a row, or the view says that it is gone."""
