"""`kshunt throttles`: rates of brokers and throttled replicas of topics.

Kafka's own `kafka-configs` writes the same settings. By a backend they are in the audit, and have
an owner. What reads values and asks a backend is imported where a command line needs it.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kshunt.backend.commandline.cluster_flags import (
    BACKEND_FLAGS,
    CLUSTER_FLAGS,
    JSON,
    backend_address,
    check_one_cluster,
    take_zookeeper,
)
from kshunt.backend.commandline.exit_codes import ExitCode
from kshunt.backend.commandline.reading import UsageError, read
from kshunt.backend.commandline.table import Command, Flag
from kshunt.backend.commandline.values import ANSWER_MARGIN_S, REASON_HELP, reason
from kshunt.backend.domain.text.formatting import many
from kshunt.backend.errors import BadInput
from kshunt.backend.tools.shared.console import check_client_config, run_tool, show_report
from kshunt.backend.tools.shared.output import ToolReport

if TYPE_CHECKING:
    from kshunt.backend.domain.operations.change import Change
    from kshunt.backend.domain.reassignment.answers import ChangeAnswer, Result
    from kshunt.backend.domain.throttles.configs import ReplicaSet, ThrottledRate

ANSWER_S: Final = 10.0
EPILOG: Final = """\
  kshunt throttles set-rates --context prod --rate 1,2=50MB/s
  kshunt throttles set-rates --context prod --leader-rate 3=50MB/s --follower-rate 3=none
  kshunt throttles set-replicas --context prod --topic t --leaders 0:1,1:2 --followers none

A rate applies to listed replicas only. kshunt kafka-reassign-partitions --throttle sets both for a
move, and removes them when it ends. In the dashboard, C in a preview copies the command that does
the same.
"""


def a_rate(text: str) -> tuple[tuple[int, ...], int | None]:
    """Brokers and their rate: `1,2=50MB/s`, or `1=none`.

    Raises:
        ValueError: it is not so.
    """
    brokers, equals, rate = text.partition("=")
    ids = brokers.split(",")
    if not equals or not all(one.isascii() and one.isdigit() and len(one) < 10 for one in ids):
        raise ValueError("must be BROKER[,...]=RATE, such as 1,2=50MB/s")
    from kshunt.backend.domain.throttles.configs import parse_rate

    try:
        return tuple(map(int, ids)), parse_rate(rate)
    except BadInput as error:
        raise ValueError(str(error)) from None


def replicas(text: str) -> ReplicaSet:
    """A list of replicas: `0:1,0:2`, `*`, or `none`.

    Raises:
        ValueError: it is no such list.
    """
    from kshunt.backend.domain.throttles.configs import ReplicaSet

    try:
        return ReplicaSet.parse(text)
    except BadInput as error:
        raise ValueError(str(error)) from None


_SHARED: Final = (
    *CLUSTER_FLAGS,
    *BACKEND_FLAGS,
    Flag("reason", REASON_HELP, "TEXT"),
    Flag("validate-only", "Say what would be set, and set nothing."),
    JSON,
)


def _rate_flag(name: str, help: str) -> Flag:
    return Flag(name, help, "BROKER[,...]=RATE", value=a_rate, repeatable=True)


_SET_RATES: Final = Command(
    ("throttles", "set-rates"),
    "Set the throttled rates of brokers.",
    (
        _rate_flag("rate", "Both rates of these brokers: 1,2=50MB/s, 1=10485760, 1=none."),
        _rate_flag("leader-rate", "What these brokers send to throttled followers."),
        _rate_flag("follower-rate", "What these brokers fetch for throttled replicas."),
        *_SHARED,
    ),
    summary="set the throttled rates of brokers",
)
_SET_REPLICAS: Final = Command(
    ("throttles", "set-replicas"),
    "Set the throttled replicas of a topic.",
    (
        Flag("topic", "The topic.", "TOPIC", required=True),
        Flag(
            "leaders",
            "Replicas that are throttled on the leader's side: PARTITION:BROKER pairs, * or none.",
            "LIST",
            required=True,
            value=replicas,
        ),
        Flag("followers", "The follower's side.", "LIST", required=True, value=replicas),
        *_SHARED,
    ),
    summary="set the throttled replicas of a topic",
)
COMMAND: Final = Command(
    ("throttles",),
    "Set replication throttles: rates of brokers, and throttled replicas of topics.",
    _SHARED,
    actions=(_SET_RATES, _SET_REPLICAS),
    epilog=EPILOG,
)


def main(argv: Sequence[str]) -> int:
    """Run the tool."""
    left = "Interrupted. The throttles may have been set; check them."
    return run_tool(COMMAND, _main, argv, interrupted=left)


def _main(argv: Sequence[str]) -> int:
    options = read(COMMAND, argv)
    if options is None:
        return ExitCode.DONE
    take_zookeeper(options)
    check_one_cluster(options.given)
    backend = backend_address(options.given)
    rates = _rates(options) if options.action == "set-rates" else {}
    from kshunt.backend.domain.operations.change import Change
    from kshunt.backend.operator_identity import who_am_i

    change = Change(options.validate_only, who=who_am_i(), reason=reason(options.given))
    check_client_config(options.command_config)
    answer = _asked(backend or _private_backend(options), options, rates, change)
    done = "would be set" if options.validate_only else "set"
    report = _report(answer, "broker" if rates else "topic", done)
    return show_report(report, as_json=options.json)


def _private_backend(options: Namespace) -> str:
    from kshunt.backend.tools.shared.private_backend import private_backend

    return private_backend(options.bootstrap_server, options.command_config)


def _asked(
    address: str, options: Namespace, rates: Mapping[int, ThrottledRate], change: Change
) -> ChangeAnswer:
    """What a backend makes of it: of the rates, or where there are none of the lists."""
    from kshunt.backend.api.client.throttles import ThrottlesClient
    from kshunt.backend.domain.throttles.configs import ThrottledReplicas
    from kshunt.backend.tools.shared.senders import quick_sender

    with quick_sender(address, timeout_s=ANSWER_S + ANSWER_MARGIN_S) as sender:
        client = ThrottlesClient(sender)
        if rates:
            return client.alter_rates(rates, change)
        lists = ThrottledReplicas(options.leaders, options.followers)
        return client.alter_replicas({options.topic: lists}, change)


def _rates(options: Namespace) -> dict[int, ThrottledRate]:
    """Both rates of each broker. A rate that is not given would be removed, so both are required.

    Raises:
        UsageError: a broker has one rate only or one rate twice, or no broker is named.
    """
    leaders = _by_broker("leader", (*options.rate, *options.leader_rate))
    followers = _by_broker("follower", (*options.rate, *options.follower_rate))
    if alone := sorted(leaders.keys() ^ followers.keys()):
        side = "--follower-rate" if alone[0] in leaders else "--leader-rate"
        raise UsageError(f"broker {alone[0]} has one rate only: give its {side} too, or none")
    if not leaders:
        raise UsageError("name brokers and rates: --rate 1,2=50MB/s")
    from kshunt.backend.domain.throttles.configs import ThrottledRate

    return {id: ThrottledRate(leaders[id], followers[id]) for id in sorted(leaders)}


def _by_broker(
    side: str, given: Iterable[tuple[tuple[int, ...], int | None]]
) -> dict[int, int | None]:
    found: dict[int, int | None] = {}
    for brokers, rate in given:
        for broker in brokers:
            if broker in found:
                raise UsageError(f"the {side} rate of broker {broker} is given twice")
            found[broker] = rate
    return found


def _report(answer: ChangeAnswer, noun: str, done: str) -> ToolReport:
    failed = len(answer.failures)
    items = (f"{noun} {_line(result, done)}" for result in answer.results)
    lines = [*items, *answer.warnings, *answer.notes]
    problems = (f"{many(failed, 'item')} failed.",) if failed else ()
    code = ExitCode.FAILED if failed else ExitCode.DONE
    from kshunt.backend.domain.untrusted.json_codec import to_document

    return ToolReport("\n".join(lines), to_document(answer), code, problems)


def _line(result: Result, done: str) -> str:
    if result.ok:
        return f"{result.item}: {result.message or done}"
    return f"{result.item}: {result.message or result.error_name}"
