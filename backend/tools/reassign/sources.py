"""How the tool reaches a cluster: through a backend, or by itself where it only reads.

A change needs a backend that outlives the tool: the backend removes the throttle when the move
ends. So the tool starts one where none runs. A read needs no backend and starts no second process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, TypeAlias

from kshunt.backend.commandline.values import ANSWER_MARGIN_S
from kshunt.backend.local_sockets import running_backend
from kshunt.backend.tools.reassign.options import ReassignCommandLine

if TYPE_CHECKING:
    from kshunt.backend.api.client.reassignments import ReassignmentsClient
    from kshunt.backend.tools.local.reassignments import LocalReassignments


ReassignAnswerer: TypeAlias = "ReassignmentsClient | LocalReassignments"
"""Who answers the tool: a backend, or this process."""


@contextmanager
def open_gateway(options: ReassignCommandLine) -> Iterator[ReassignmentsClient]:
    """The backend that the options name, or the private one, started if need be.

    Raises:
        BackendUnreachable: no backend could be reached or started.
    """
    from kshunt.backend.api.client.backend_client import BackendClient

    address = options.backend
    if not address:
        from kshunt.backend.tools.shared.private_backend import private_backend

        address = private_backend(options.bootstrap_servers, options.command_config)
    patience_s = options.timeout_ms / 1000 + ANSWER_MARGIN_S
    with closing(BackendClient(address, timeout_s=patience_s)) as client:
        yield client.reassignments


@contextmanager
def open_reader(options: ReassignCommandLine) -> Iterator[ReassignAnswerer]:
    """The backend that the options name, the private one if it runs, or else this process.

    Raises:
        BackendUnreachable: the backend that the options name does not answer.
        ClusterUnreachable: no backend runs, and no broker answers this process.
    """
    address = running_backend(options.backend, options.bootstrap_servers, options.command_config)
    if address:
        from kshunt.backend.api.client.reassignments import ReassignmentsClient
        from kshunt.backend.tools.shared.senders import quick_sender

        with quick_sender(address) as sender:
            yield ReassignmentsClient(sender)
        return
    from kshunt.backend.settings import PlacerSettings, Settings
    from kshunt.backend.tools.local.cluster import LocalCluster
    from kshunt.backend.tools.local.reassignments import LocalReassignments

    placer = PlacerSettings.of(os.environ)
    settings = Settings(options.bootstrap_servers, options.command_config, placer=placer)
    with closing(LocalCluster(settings)) as cluster:
        yield LocalReassignments(cluster)
