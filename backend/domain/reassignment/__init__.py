"""Reassignment plans in Kafka's JSON, answers to them, progress."""
