"""Tests of `backend/commandline`."""
