"""Tests: see `CONTRIBUTING.md` for what lies where."""
