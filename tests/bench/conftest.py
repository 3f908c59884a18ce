"""The brokers that are measured."""

from __future__ import annotations

from tests.support.brokers.shared import kafka as kafka
