"""The jars of Spark's connector that Maven gets have the digests that the project knows."""

from __future__ import annotations

import pytest

from kshunt.backend.pipeline.spark.jars import KNOWN, check_jars
from tests.support.brokers.connector import connector_jars, missing_connector


@pytest.mark.kafka
@pytest.mark.skipif(missing_connector() is not None, reason=str(missing_connector()))
def test_the_jars_that_the_tests_use_are_known() -> None:
    folder = connector_jars()
    check_jars(folder)
    assert {path.name for path in folder.glob("*.jar")} == KNOWN.keys()
