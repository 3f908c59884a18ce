"""The brokers, and what tests of the command-line tools begin with."""

from __future__ import annotations

from tests.support.brokers.shared import kafka as kafka
from tests.support.tools import own_runtime_dir as own_runtime_dir
from tests.support.tools import stub as stub
