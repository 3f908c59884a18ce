"""When copies will be in the ISR: what is concluded of a tick."""

from __future__ import annotations

import math

import pytest

from kshunt.backend.domain.forecast.outlook import JOIN_S
from kshunt.backend.domain.forecast.ranges import STAGES, THROTTLE
from kshunt.backend.domain.pipeline.result_columns import ETA, RATES, TICK_S
from kshunt.backend.pipeline.kernels import eta_of_samples as kernel
from kshunt.backend.pipeline.kernels.eta_of_samples import OUT
from kshunt.backend.pipeline.kernels.ticks import COLUMNS
from tests.support.pipeline.forecasts import MB, PLAIN, Row, forecast, row
from tests.support.pipeline.recorded import START_MS, time_of

# --- a tick


SLOWER: Row = {
    "catch_up_30s_bytes_per_s": 5.0 * MB,
    "catch_up_5m_bytes_per_s": 5.0 * MB,
    "advanced_bytes": 25 * MB,
}


def of_copies(found: list[Row]) -> dict[int, Row]:
    return {one["rid"]: one for one in found if one["rid"] is not None}


def of_operation(found: list[Row]) -> Row:
    (one,) = (one for one in found if one["rid"] is None)
    return one


def test_two_copies_share_a_throttle_and_the_second_speeds_up() -> None:
    found = forecast(row(4, 100, **SLOWER), row(4, 200, partition=1, **SLOWER))
    copies = of_copies(found)
    assert copies[4]["p50_s"] == pytest.approx(20 + JOIN_S)
    assert copies[104]["p50_s"] == pytest.approx(30 + JOIN_S)
    assert copies[4]["bound"] == "follower throttle of broker 4"
    assert copies[4]["rate_bytes_per_s"] == 5 * MB
    whole = of_operation(found)
    assert whole["p50_s"] == copies[104]["p50_s"]
    assert (whole["copies"], whole["remaining_bytes"]) == (2, 300 * MB)
    assert (whole["operation_id"], whole["topic"], whole["throttled"]) == ("op", None, True)
    assert whole["stage"] == pytest.approx(104 / (104 + 31))


@pytest.mark.parametrize(
    ("produced", "writes"), [(0.0, "none"), (1.0, "some"), (9.0, "much"), (10.0, None)]
)
def test_an_operation_says_what_is_written_until_its_end(
    produced: float, writes: str | None
) -> None:
    """A throttle of 10 MB/s has to take that, too; when it takes no less, there is no end."""
    rate = {f"produced_{span}_bytes_per_s": produced * MB for span in ("30s", "5m")}
    found = forecast(row(4, 100, **rate))
    assert of_operation(found)["writes"] == writes
    assert of_copies(found)[4]["writes"] is None


def test_copies_on_different_brokers_do_not_wait_for_each_other() -> None:
    copies = of_copies(forecast(row(4, 100), row(3, 300, partition=1)))
    assert copies[4]["p50_s"] == pytest.approx(10 + JOIN_S)
    assert copies[103]["p50_s"] == pytest.approx(30 + JOIN_S)


def test_in_sync_followers_use_a_throttle_up() -> None:
    steady = row(4, 0, partition=1, in_isr=True, adding=False, produced_30s_bytes_per_s=5.0 * MB)
    found = forecast(row(4, 100, **SLOWER), steady | {"produced_5m_bytes_per_s": 5.0 * MB})
    assert of_copies(found)[4]["p50_s"] == pytest.approx(20 + JOIN_S)


def test_a_throttle_that_was_just_changed_is_believed() -> None:
    raised = row(4, 100, follower_throttle_bytes_per_s=50 * MB, advanced_bytes=250 * MB)
    assert of_copies(forecast(raised))[4]["p50_s"] == pytest.approx(2 + JOIN_S)


def test_what_the_throttle_does_not_hold_goes_as_it_was_seen_to() -> None:
    link = row(4, 100, follower_throttle_bytes_per_s=90 * MB)
    one = of_copies(forecast(link))[4]
    assert one["p50_s"] == pytest.approx(10 + JOIN_S)
    assert one["bound"] == "broker 4 receiving"


def test_a_slow_link_is_told_from_a_slow_broker() -> None:
    free: Row = {"follower_throttle_bytes_per_s": None}
    slow = {**free, "catch_up_30s_bytes_per_s": 1.0 * MB, "catch_up_5m_bytes_per_s": 1.0 * MB}
    rows = [row(4, 100, **free), row(3, 100, partition=1, leader=2, **free)]
    rows += [row(4, 100, partition=2, leader=2, **slow)]
    copies = of_copies(forecast(*rows))
    assert copies[204]["bound"] == "link 2->4"
    assert copies[204]["p50_s"] == pytest.approx(100 + JOIN_S)


def test_never_where_nothing_is_left_of_a_throttle() -> None:
    written = {f"produced_{window}_bytes_per_s": 10.0 * MB for window in ("30s", "5m")}
    found = forecast(row(4, 100, **written), row(3, 100, partition=1))
    one = of_copies(found)[4]
    assert one["p10_s"] is one["p50_s"] is one["p90_s"] is one["stage"] is None
    assert one["why"] == ("never: follower throttle of broker 4 gives no more than is written")
    assert of_operation(found)["why"] == one["why"]
    assert of_copies(found)[103]["p50_s"] == pytest.approx(10 + JOIN_S)
    burst = written | {"produced_5m_bytes_per_s": 5.0 * MB, "produced_30s_bytes_per_s": 30.0 * MB}
    assert of_copies(forecast(row(4, 100, **burst)))[4]["p50_s"] == pytest.approx(20 + JOIN_S)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"cause": "BROKER_DOWN"}, "broker_down"),
        ({"leader": None}, "no_leader"),
        (
            dict.fromkeys(SLOWER, 0.0) | {"advanced_bytes": 0},
            "it does not advance",
        ),
        (
            dict.fromkeys(("follower_throttle_bytes_per_s", *SLOWER)),
            "its rate is not known yet",
        ),
    ],
)
def test_no_end_in_sight(changes: Row, why: str) -> None:
    found = forecast(row(4, 100) | changes, row(3, 100, partition=1))
    assert of_copies(found)[4]["why"] == why
    assert of_copies(found)[4]["p50_s"] is None
    assert of_operation(found)["why"] == why
    assert of_copies(found)[103]["why"] is None


def test_who_waits_for_its_turn_is_not_stuck() -> None:
    still = dict.fromkeys(SLOWER, 0.0) | {"advanced_bytes": 0, "cause": "WAITING_TURN"}
    copies = of_copies(forecast(row(4, 100), row(4, 100, partition=1, **still)))
    assert copies[104]["p50_s"] == pytest.approx(20 + JOIN_S)


def test_a_copy_that_has_not_started() -> None:
    found = forecast(row(4, None) | dict.fromkeys(SLOWER))
    one = of_copies(found)[4]
    assert (one["bound"], one["p50_s"]) == ("not started", None)
    assert one["why"] == "what it lacks is not known yet"


def test_an_operation_whose_copy_is_not_heard_of() -> None:
    leaves = row(2, 0, partition=1, in_isr=True, adding=False, removing=True)
    whole = of_operation(forecast(row(4, 100), leaves))
    assert (whole["p50_s"], whole["why"]) == (None, kernel.SILENT)
    came = row(4, 0, partition=1, in_isr=True, adding=False)
    came = came | {"at": time_of(START_MS + 4_000)}
    left = leaves | {"at": time_of(START_MS + 1_000)}
    assert of_operation(forecast(row(4, 100), left, came))["p50_s"] is not None


def test_ranges_are_those_of_the_calibration() -> None:
    quantiles = PLAIN.copy()
    one = of_copies(forecast(row(4, 100)))[4]
    quantiles[0, int(one["stage"] * STAGES), THROTTLE] = math.log(0.5), 0.0, math.log(3.0)
    found = of_copies(forecast(row(4, 100), quantiles=quantiles))[4]
    ends = [found[name] for name in ("p10_s", "p50_s", "p90_s")]
    assert ends == pytest.approx([5.5, 11.0, 33.0])


def test_ticks_are_worked_out_one_by_one() -> None:
    later: Row = {"tick": time_of(START_MS + TICK_S * 1000), "at": time_of(START_MS + 9_000)}
    rows = [row(4, 100), row(4, 50, partition=1), row(4, 60) | later]
    together = forecast(*rows)
    apart = forecast(*rows[:2]) + forecast(rows[2])
    key = lambda one: (one["rid"] is None, one["at"], one["rid"])  # noqa: E731
    assert sorted(together, key=key) == sorted(apart, key=key)
    assert forecast(row(4, 0, in_isr=True)) == forecast() == []


# --- the table


def test_the_kernels_columns_are_those_of_the_tables() -> None:
    assert tuple(OUT.names) == ETA.names
    assert set(COLUMNS) <= set(RATES.names)
