"""Verbs on topics: altering them, and native deletion of partitions."""
