"""Jars of Spark's connector: only those that the project or the operator has digests of."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from kshunt.backend.errors import ConfigError
from kshunt.backend.pipeline.spark.jars import KNOWN, SUMS, check_jars
from kshunt.backend.pipeline.spark.kafka_connector import connector_settings

NAME = "spark-sql-kafka-0-10_2.13-9.9.9.jar"


def state(folder: Path, name: str, content: bytes) -> None:
    """Write a digest down, as `sha256sum` does."""
    with (folder / SUMS).open("a") as file:
        file.write(f"{hashlib.sha256(content).hexdigest()}  {name}\n")


def test_a_jar_of_which_nobody_has_a_digest_is_not_loaded(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"jar")
    with pytest.raises(ConfigError, match="There is no digest for"):
        connector_settings(tmp_path, "9.9.9")
    state(tmp_path, NAME, b"jar")
    found = connector_settings(tmp_path, "9.9.9")
    assert found == {"spark.jars": str(tmp_path / NAME)}
    (tmp_path / NAME).write_bytes(b"another")
    with pytest.raises(ConfigError, match="does not have the expected digest"):
        connector_settings(tmp_path, "9.9.9")


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_an_operator_cannot_state_another_digest_of_a_known_jar(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"changed")
    state(tmp_path, name, b"changed")
    with pytest.raises(ConfigError, match="does not have the expected digest"):
        check_jars(tmp_path)


@pytest.mark.parametrize("what", [NAME, SUMS, "."])
def test_what_others_can_write_is_not_loaded(tmp_path: Path, what: str) -> None:
    (tmp_path / NAME).write_bytes(b"jar")
    state(tmp_path, NAME, b"jar")
    (tmp_path / what).chmod(0o777)
    with pytest.raises(ConfigError, match="ther users can write"):
        check_jars(tmp_path)


def test_a_line_that_is_no_digest_is_refused(tmp_path: Path) -> None:
    (tmp_path / SUMS).write_text("deadbeef  x.jar\n")
    with pytest.raises(ConfigError, match="not a digest"):
        check_jars(tmp_path)
