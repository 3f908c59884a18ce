"""Tests of what puts a backend together."""
