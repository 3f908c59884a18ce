"""The topics view: screen, table, cells and details."""
