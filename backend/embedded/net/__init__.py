"""Kafka's protocol over loopback sockets: listeners, framing, versions, faults."""
