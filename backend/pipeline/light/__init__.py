"""Results of samples inside `kshunt serve`, on one thread: the stream's tables, without Spark."""
