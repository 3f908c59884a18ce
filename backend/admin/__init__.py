"""One port to a cluster, and its implementations."""
