"""A topic copied into one with another number of partitions, and the copy verified."""
