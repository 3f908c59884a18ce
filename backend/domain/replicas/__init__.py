"""Replicas at one moment: state, why they are stuck, what other rates do."""
