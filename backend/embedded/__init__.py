"""A Kafka cluster in one process: the demo, the test bed, the rehearsal twin."""
