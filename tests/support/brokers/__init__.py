"""Real Apache Kafka brokers on loopback, for the tests and the demo."""
