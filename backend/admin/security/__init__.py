"""How our clients of Kafka authenticate: a Java client's properties, for both libraries."""
