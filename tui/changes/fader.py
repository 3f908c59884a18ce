"""Rates that follow the keys: within a band that was confirmed once, each step is sent immediately.

Goals
    An operator turns a rate up and down while watching what it does. Every change is audited as any
    other one, names the band, and can be taken back.
Constraints
    One request at a time. Outside of the band, and wherever something is not as it was, the usual
    preview decides. A failure ends the band: an operator must see it before more is sent.
Algorithm
    Keys change the wanted rates, and a worker sends them. Keys that an operator presses during a
    request change the next wanted rates. So the worker sends only the newest value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kshunt.backend.domain.throttles.configs import ThrottledRate
from kshunt.backend.errors import AwaitsApproval, KshuntError
from kshunt.tui.actions import key_of
from kshunt.tui.changes.intents.throttles import step_intent
from kshunt.tui.changes.wizard.change_service import READ_ONLY, ChangeService
from kshunt.tui.changes.wizard.intent import TargetCluster
from kshunt.tui.dialogs.rate_band import RateBandScreen, TypedBand
from kshunt.tui.facts.pending_rates import pair_text, some_brokers, stepped, typed_rate
from kshunt.tui.facts.rate_band import RateBand, RateChange

if TYPE_CHECKING:
    from kshunt.tui.shell.dashboard import Dashboard

SETTLE_S: Final = 15.0
"""After this time a snapshot shows what was set, or what somebody else has set since."""
BEGINS: Final = ("20MB/s", "80MB/s", "10")
"""What the form begins with where nothing is set yet."""
ENDED: Final = "The band has ended"
"""Said before the reason: a narrow last line cuts its end."""

Rates = dict[int, ThrottledRate]


class Fader:
    """See the module's text."""

    def __init__(self, app: Dashboard) -> None:
        self._app = app
        self._service = ChangeService(app)
        self._sending: Rates = {}
        """What is under way; empty where nothing is."""
        self._before_sending: Rates = {}
        """What was set before that."""
        self._wanted: Rates = {}
        """What is sent next."""
        self._sends_back = self._goes_back = False
        """True where what is under way, or wanted next, takes the last change back."""
        self._accepted: dict[int, tuple[ThrottledRate, float]] = {}
        """What was set from here and when, until a snapshot shows it."""

    # What keys do

    def confirm(self, brokers: Sequence[int]) -> None:
        """Ask for a band for these brokers."""
        app, band = self._app, self._app.store.band
        if self._service.read_only:
            app.say(READ_ONLY, "warn")
        elif not brokers or self._refused():
            return
        else:
            begins = (*BEGINS, "")
            if band is not None and self._is_open(band, brokers):
                limits = band.low_bytes_per_s, band.high_bytes_per_s
                low, high = map(typed_rate, limits)
                begins = (low, high, f"{band.span_s / 60:.0f}", band.why)
            app.push_screen(
                RateBandScreen(some_brokers(sorted(brokers)), *begins),
                lambda typed: None if typed is None else self._open(brokers, typed),
            )

    def _open(self, brokers: Sequence[int], typed: TypedBand) -> None:
        app, store = self._app, self._app.store
        if self._refused():
            return
        if not typed.minutes:
            self._end(f"{ENDED}.", "")
            return
        span_s = typed.minutes * 60.0
        store.band = RateBand(
            store.scene.cluster_id,
            frozenset(brokers),
            typed.low_bytes_per_s,
            typed.high_bytes_per_s,
            span_s,
            store.now_s() + span_s,
            typed.why,
        )
        app.changed.publish("")
        keys = f"{key_of('faster')} and {key_of('slower')}"
        app.say(f"{keys} are now applied immediately to {some_brokers(sorted(brokers))}.", "good")

    def step(self, brokers: Sequence[int], *, up: bool) -> bool:
        """Step the rates of these brokers; False where no band holds for them."""
        app, band = self._app, self._app.store.band
        if band is None or not self._is_open(band, brokers):
            return False
        if self._refused():
            return True
        rates = {id: stepped(rate, up=up) for id, rate in self._present(brokers).items()}
        if len(rates) < len(brokers):
            app.say(f"There is no rate to step; {key_of('edit')} sets one.", "warn")
        elif band.holds(rates.values()):
            self._want(rates, back=False)
        elif self._sending:
            app.say("That is outside of the band. Press it again after the answer.", "warn")
        else:
            app.workflows.set_rates(rates, lambda: None)
        return True

    def take_back(self) -> None:
        """Restore what was set before the last change of rates."""
        app, store = self._app, self._app.store
        if self._service.read_only:
            app.say(READ_ONLY, "warn")
            return
        if self._refused():
            return
        if self._wanted:
            self._wanted = {}
            app.say("Rates that were not sent are dropped.")
            return
        if self._sending:
            self._take_back_sending()
            return
        changes = [one for one in store.rate_changes if one.cluster_id == store.scene.cluster_id]
        if not changes:
            app.say("No rate was changed from here.")
            return
        last, band = changes[-1], store.band
        as_left = self._present(list(last.after)) == dict(last.after)
        within = band is not None and self._is_open(band, list(last.before))
        if band is not None and within and as_left and band.holds(last.before.values()):
            self._want(dict(last.before), back=True)
        else:
            # What restores the rates is no change of its own.
            app.workflows.set_rates(last.before, lambda: self._forget_from(last))

    def _forget_from(self, change: RateChange) -> None:
        changes = self._app.store.rate_changes
        del changes[changes.index(change) :]

    def _take_back_sending(self) -> None:
        """Restore what was set before the change that is under way, once that was answered."""
        band, before = self._app.store.band, self._before_sending
        known = before.keys() == self._sending.keys() and not self._sends_back
        if band is not None and known and band.holds(before.values()):
            self._want(before, back=True)
        else:
            self._app.say("Wait for the answer, and press it again.", "warn")

    # Whether it may be

    def _is_open(self, band: RateBand, brokers: Sequence[int]) -> bool:
        store = self._app.store
        return band.open_for(brokers, store.scene.cluster_id, store.now_s())

    def _refused(self) -> bool:
        """Say why nothing can be sent; True if so."""
        app = self._app
        if app.playback.past:
            app.say(app.playback.refusal(), "warn")
        elif not app.store.scene.live or app.store.facts is None:
            app.say("The connection is lost: nothing can be sent until it is back.", "bad")
        elif app.changing and not self._sending:
            app.say("A change is running; wait for its answer.", "warn")
        else:
            return False
        return True

    def _present(self, brokers: Sequence[int]) -> Rates:
        """What these brokers have, or will have once everything wanted was set."""
        return {
            id: rate
            for id in brokers
            if (rate := self._wanted.get(id) or self._sending.get(id) or self._set(id)) is not None
            and rate != ThrottledRate(None, None)
        }

    def _set(self, broker: int) -> ThrottledRate | None:
        """What is set on a broker; None where nobody knows."""
        store = self._app.store
        shown = None
        if store.facts is not None and broker in store.facts.snapshot.throttles.rates:
            shown = store.facts.snapshot.throttles.rates[broker].rate
        rate, at_s = self._accepted.get(broker, (None, 0.0))
        if rate is None or rate == shown or store.now_s() - at_s > SETTLE_S:
            self._accepted.pop(broker, None)
            return shown
        return rate

    # Sending

    def _want(self, rates: Mapping[int, ThrottledRate], *, back: bool) -> None:
        self._wanted |= rates
        self._goes_back = back
        # The last line says which rate comes, also while an earlier one is under way.
        self._app.say(f"Setting {_words(self._wanted)} ...")
        if not self._sending:
            # Taken now: the next key must find that a request is under way.
            self._take_wanted()
            self._app.run_worker(self._send_all(), group="change")

    def _take_wanted(self) -> None:
        self._before_sending = {
            id: rate for id in self._wanted if (rate := self._set(id)) is not None
        }
        self._sending, self._wanted = self._wanted, {}
        self._sends_back = self._goes_back
        self._app.changing = True

    async def _send_all(self) -> None:
        try:
            await self._send()
            while self._wanted:
                band = self._app.store.band
                if band is None or not self._is_open(band, list(self._wanted)):
                    self._end(f"{ENDED}: the last step was not sent.", "warn")
                    return
                self._take_wanted()
                await self._send()
        finally:
            self._sending = {}
            self._app.changing = False

    async def _send(self) -> None:
        """Send what was taken; a failure ends the band, and drops what is wanted."""
        app, store = self._app, self._app.store
        rates, band, back = self._sending, store.band, self._sends_back
        if band is None:
            return
        target = TargetCluster(band.cluster_id, store.scene.bootstrap_servers)
        intent = replace(step_intent(target, rates), reason=band.reason)
        if not back:
            intent = replace(intent, restores=self._before_sending, rates=rates)
        try:
            answer = await self._service.send(intent)
        except AwaitsApproval as waits:
            self._end(f"{ENDED}: rates need two people here. {waits}", "warn")
            return
        except KshuntError as error:
            self._end(f"{ENDED}: {error}", "bad")
            return
        if failed := answer.failures:
            first = failed[0]
            why = f"broker {first.item}: {first.message or first.error_name}"
            self._end(f"{ENDED}: not everything was set. {why}.", "bad")
            return
        if back:
            del store.rate_changes[-1:]
        self._accepted |= {id: (rate, store.now_s()) for id, rate in rates.items()}
        if not self._wanted:
            app.say(f"Set {_words(rates)}. {key_of('take_back')} takes a change back.", "good")

    def _end(self, text: str, tone: str) -> None:
        """No band from here on."""
        self._wanted = {}
        self._app.store.band = None
        self._app.changed.publish("")
        self._app.say(text, tone)


def _words(rates: Rates) -> str:
    """`broker 2 to 27.5 MB/s`."""
    values = {pair_text(rate) for rate in rates.values()}
    who = some_brokers(sorted(rates))
    return f"{who} to {values.pop()}" if len(values) == 1 else who
