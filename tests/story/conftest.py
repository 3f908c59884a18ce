"""The brokers of the story."""

from __future__ import annotations

from tests.support.brokers.shared import kafka as kafka
