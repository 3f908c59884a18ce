"""Partition logs: batches of clients and counters of scenarios in one."""
