"""Tests of `backend/cli`."""
