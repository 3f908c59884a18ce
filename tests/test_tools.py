"""`kshunt kafka-reassign-partitions`: flags, words, exit codes and files, without a cluster.

The backend that the tool speaks to here is bytes on a Unix-domain socket. What real brokers and
Apache's own tool say to the same commands is in `test_tools_kafka.py`.
"""

import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any

import pytest

from backend.errors import ConfigError
from backend.settings import LIMITS
from backend.tools.options import FLAGS, Action, build_parser
from backend.tools.output import EXISTING_ASSIGNMENT
from backend.tools.reassign import main
from backend.tools.sockets import PATH_BYTES_MAX, answers, runtime_dir, socket_path
