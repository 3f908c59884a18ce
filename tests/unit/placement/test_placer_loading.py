"""From the name of a placer to one that is ready, or to what is wrong with the setting."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from kshunt.backend.errors import ConfigError
from kshunt.backend.placement.placer import ReplicaPlacer, UsableBroker, load_placer
from kshunt.backend.placement.placer_names import GROUP, KAFKA_STRIPED, SHIPPED
from kshunt.backend.placement.striped import StripedReplicaPlacer
from tests.support.paths import ROOT
from tests.support.placement.placers import Foreign

HERE = __name__


class Half:
    """Lacks two methods."""

    def place(self, *_: object) -> Sequence[Sequence[int]]:
        return []


class OldPlace(Foreign):
    """Takes what an earlier interface gave."""

    def place(  # type: ignore[override]
        self, num_partitions: int, brokers: Iterator[UsableBroker]
    ) -> Sequence[Sequence[int]]:
        return []


class OldConfigure(Foreign):
    """Takes no configuration."""

    def configure(self) -> None:  # type: ignore[override]
        """It needs none."""


class NeedsArgument(Foreign):
    """Cannot be made without one."""

    def __init__(self, path: str) -> None:
        self.path = path


class Raises(Foreign):
    """Fails when it is made."""

    def __init__(self) -> None:
        raise OSError("no database")


class Exits(Foreign):
    """Ends the process when it is made."""

    def __init__(self) -> None:
        raise SystemExit(2)


class Picky(Foreign):
    """Wants a setting."""

    def configure(self, configs: Mapping[str, str]) -> None:
        self.zone = configs["zone"]


@pytest.mark.parametrize("name", sorted(SHIPPED.keys() - {"rules"}))
def test_the_shipped_ones_are_found_without_an_installation(name: str) -> None:
    assert isinstance(load_placer(name), ReplicaPlacer)
    assert f"{type(load_placer(name)).__module__}:" in SHIPPED[name]


def test_the_project_declares_the_shipped_ones_as_entry_points() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert tomllib.loads(text)["project"]["entry-points"][GROUP] == SHIPPED


@pytest.mark.conforms("kip-660-draft:interface")
def test_kafkas_own_class_is_ours() -> None:
    assert isinstance(load_placer(KAFKA_STRIPED), StripedReplicaPlacer)


@pytest.mark.conforms("kip-660-draft:configurable")
def test_one_placer_for_each_name_and_configuration() -> None:
    first = load_placer(f"{HERE}:Picky", {"zone": "a"})
    assert isinstance(first, Picky)
    assert first.zone == "a"
    assert load_placer(f"{HERE}:Picky", {"zone": "a"}) is first
    assert load_placer(f"{HERE}:Picky", {"zone": "b"}) is not first


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "'' is not a placer"),
        (":", "':' is not a placer"),
        ("module:", "'module:' is not a placer"),
        ("nobody-offers-this", "no installed package has it"),
        ("no_such_module_x:Class", "cannot be created: ModuleNotFoundError"),
        (f"{HERE}:Absent", "cannot be created: AttributeError"),
        (f"{HERE}:HERE", "cannot be created: TypeError: 'str' object is not callable"),
        (f"{HERE}:Half", "does not have the methods configure, close"),
        (f"{HERE}:OldConfigure", r"its method configure must accept \(configs\)"),
        (
            f"{HERE}:OldPlace",
            r"its method place must accept \(start_partition, num_partitions, num_replicas, b",
        ),
        (f"{HERE}:NeedsArgument", "cannot be created: TypeError"),
        (f"{HERE}:Raises", "cannot be created: OSError: no database"),
        (f"{HERE}:Exits", "cannot be created: SystemExit: 2"),
        (f"{HERE}:Picky", "rejects its configuration: KeyError: 'zone'"),
        ("rules", r"kshunt\.placer\.rules is not set"),
    ],
)
def test_what_cannot_be_loaded_is_an_error_of_the_setting(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_placer(name)


def test_a_module_that_fails_at_import_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "placer_that_fails.py").write_text("raise RuntimeError('no licence')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="cannot be created: RuntimeError: no licence"):
        load_placer("placer_that_fails:Any")


def test_a_name_that_two_packages_offer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("one", "two"):
        folder = tmp_path / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[{GROUP}]\nshared = {package}:Placer\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="'shared' can be any of one:Placer, two:Placer"):
        load_placer("shared")
