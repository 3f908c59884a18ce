"""A module that somebody left where a process starts, and that must not run."""

from __future__ import annotations

PLANTED = """
from pathlib import Path
Path(__file__).with_name("was-run").touch()
"""
