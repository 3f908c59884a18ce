"""Formatting the brokers' folders with one run of StorageTool.

Broker 1 is formatted by Kafka's tool; the others get copies of its files with their own node id
and new directory ids. Measured for three brokers on two cores: 0.5 s instead of 1.6 s for three
runs side by side.
"""

import base64
import re
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

from tests.support.brokers.config import PASSWORD, SCRAM_MECHANISMS, USER, BrokerPlan
from tests.support.brokers.guard import Guard
from tests.support.brokers.java import KafkaLaunchError, java_tool_command

FORMAT_DEADLINE_S = 60.0


def new_kafka_id() -> str:
    """A random id in Kafka's notation, which must not open with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def format_brokers(
    plans: Sequence[BrokerPlan], cluster_id: str, guard: Guard, *, sasl: bool
) -> None:
    """Make every broker's log directories ready for its first start."""
    first, *others = plans
    _format(first, cluster_id, guard, sasl=sasl)
    for plan in others:
        for source, target in zip(first.log_dirs, plan.log_dirs, strict=True):
            shutil.copytree(source, target)
            _rename(target / "meta.properties", plan.broker_id)


def _format(plan: BrokerPlan, cluster_id: str, guard: Guard, *, sasl: bool) -> None:
    args = ["format", "-t", cluster_id, "-c", str(plan.properties_file)]
    if sasl:
        for mechanism in SCRAM_MECHANISMS:
            args += ["--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]"]
    command = java_tool_command("kafka.tools.StorageTool", args)
    done = guard.run(command, timeout_s=FORMAT_DEADLINE_S)
    if done.returncode != 0:
        raise KafkaLaunchError(f"StorageTool could not format:\n{done.stdout}{done.stderr}")


def _rename(meta: Path, broker_id: int) -> None:
    text = re.sub(r"(?m)^node\.id=.*$", f"node.id={broker_id}", meta.read_text())
    text = re.sub(r"(?m)^directory\.id=.*$", f"directory.id={new_kafka_id()}", text)
    meta.write_text(text)
