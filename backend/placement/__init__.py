"""Which brokers should host which replicas."""
