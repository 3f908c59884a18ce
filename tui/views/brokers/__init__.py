"""The brokers view: screen, table, cells, matrix and details."""
