"""A cluster's brokers, partitions and who hosts them, as it reports them."""
