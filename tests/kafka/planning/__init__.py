"""Plans, placers and rehearsals against real brokers."""
