"""The keys that the backends of a test share, in whatever process they are."""

from __future__ import annotations

import os
from typing import Final

from kshunt.backend.access.cluster_keys import (
    KEYS_MAX,
    SECRET_BYTES,
    ClusterKeys,
    Key,
    default_path,
    read_keys,
)

KEYS: Final = ClusterKeys((Key("0000feed", bytes(range(SECRET_BYTES))),))


def keys_of(cluster_id: str) -> ClusterKeys:
    """Also those that backends of this host made for themselves."""
    path = default_path(cluster_id, os.environ)
    own = read_keys(path).keys if path.exists() else ()
    return ClusterKeys((*KEYS.keys, *own))


def rotated(keys: ClusterKeys) -> ClusterKeys:
    """With a new key that signs; the others still verify."""
    return ClusterKeys((Key.new(), *keys.keys)[:KEYS_MAX])
