"""The partitions view: screen, tables, cells, filter and details."""
