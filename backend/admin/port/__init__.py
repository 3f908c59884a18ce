"""What can be asked of a cluster and done to it, and the results of both."""
