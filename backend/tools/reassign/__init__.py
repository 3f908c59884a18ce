"""`kshunt kafka-reassign-partitions`."""
