"""The table of what differs between the clusters of the contract is not longer than it need be."""

from tests.support.clusters import (
    DIFFERENCES,
)
from tests.support.paths import ROOT


def test_no_difference_is_listed_in_vain() -> None:
    text = "".join(path.read_text() for path in (ROOT / "tests" / "contract").glob("test_*.py"))
    for name, difference in DIFFERENCES.items():
        assert f'differs("{name}"' in text, f"no test asks for {name!r}"
        assert len({*difference.values.values()}) > 1, f"{name!r} is no difference"
        assert difference.reason
