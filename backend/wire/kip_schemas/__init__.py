"""Message schemas of the seeds: one JSON file a message, in the form Kafka uses for its own."""
