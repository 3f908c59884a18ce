"""Kafka's command-line tools, with Kafka's flags and words."""
