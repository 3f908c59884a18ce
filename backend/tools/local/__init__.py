"""Reads of a cluster by the tool's own process, where no backend runs."""
