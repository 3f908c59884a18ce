"""Where the journal of operations is kept: a topic of the cluster, or znodes."""
