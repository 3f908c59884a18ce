"""Item results of the port as results of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kshunt.backend.admin.port.item_result import ItemResult
from kshunt.backend.domain.reassignment.answers import Result
from kshunt.backend.errors import WrongCluster


def result(item: object, outcome: ItemResult) -> Result:
    """One item's result, under the name that an operator knows it by."""
    return Result(str(item), outcome.error_code, outcome.error_name, outcome.message)


def results(outcomes: Mapping[Any, ItemResult]) -> tuple[Result, ...]:
    """One result an item, in the items' order."""
    return tuple(result(item, outcome) for item, outcome in sorted(outcomes.items()))


def failures(outcomes: Mapping[Any, ItemResult]) -> tuple[str, ...]:
    """One sentence for each item that failed."""
    return tuple(
        f"{item}: {outcome.error_name}: {outcome.message}"
        for item, outcome in sorted(outcomes.items())
        if not outcome.ok
    )


def check_cluster(expected: str | None, actual: str) -> None:
    """Stop a request that was meant for another cluster.

    Raises:
        WrongCluster: `expected` is given and is not `actual`.
    """
    if expected is not None and expected != actual:
        raise WrongCluster(
            f"The request is for cluster {expected}, but this backend serves {actual}. Nothing "
            "was changed.",
            advice="Connect to the intended cluster, or check this one first.",
        )
