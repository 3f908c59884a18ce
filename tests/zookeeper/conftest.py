"""The ZooKeeper, and a folder for private backends."""

from __future__ import annotations

from tests.support.brokers.shared import zookeeper as zookeeper
from tests.support.tools import own_runtime_dir as own_runtime_dir
