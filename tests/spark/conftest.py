"""The Spark session, and the brokers that it reads."""

from __future__ import annotations

from tests.support.brokers.shared import kafka as kafka
from tests.support.pipeline.spark import spark as spark
