"""Samples of a running cluster."""
