"""A topic loses partitions (KIP-694): check, phases, offsets of groups."""
