"""Fewer partitions for a topic of a cluster that cannot drop one: a durable operation."""
