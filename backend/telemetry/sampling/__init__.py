"""From answers of brokers to snapshots."""
