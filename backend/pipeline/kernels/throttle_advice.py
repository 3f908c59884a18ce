"""By what a throttle is judged, and what is said of it: the table `throttle_effect`."""

from __future__ import annotations

from typing import Final

BEFORE_S: Final = 75
"""A replica is as it was at its last sample within this time before a piece of time."""
SEEN_S: Final = 30
"""Less of a time says nothing."""
BINDS: Final = 0.9
"""So much of a rate is used by whom it holds."""
SLACK: Final = 0.8
"""Copies that use less have another limit."""
LAG_S: Final = 5.0
"""Half of what the oldest Kafkas allow before a follower leaves the ISR."""
GREW: Final = 1.5
LOWER: Final = 0.75
RAISE: Final = 1.5

LEADER, FOLLOWER = "leader", "follower"
NOT_ITS_FAULT: Final = ("BROKER_DOWN", "LOG_DIR_OFFLINE", "NO_LEADER", "SOURCE_UNREACHABLE")
"""No throttle is the reason for these: neither that a copy rests, nor that a follower leaves."""

PAUSED: Final = "it only holds the copies, as in a pause"
SHORT: Final = "there are too few samples of it"
PUSHED_OUT: Final = "steady followers left the ISR"
LAGGING: Final = "steady lag grew"
NOT_LOWER: Final = "steady followers fall behind, but a lower rate would not carry what is written"
BINDS_ALONE: Final = "the throttle is the limit, and no steady follower shares it"
BINDS_ALL: Final = "the throttle is the limit, and steady followers keep up"
HELD_ELSEWHERE: Final = "the throttle at the other end holds the copies"
SLACK_LEFT: Final = "links, disks or brokers are the limit"
MOSTLY_USED: Final = "most of the rate is used"
"""Reasons."""
