"""A batch of new samples, as Spark's stream and the thread of `serve` make it; without Spark."""
