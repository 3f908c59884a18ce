"""Scenarios: their files, and how they are played on a cluster's clock."""
