"""What the Kafka clients lack: requests and columnar decoding of large answers."""
