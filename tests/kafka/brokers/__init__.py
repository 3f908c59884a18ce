"""The launcher of real brokers, and their jars."""
