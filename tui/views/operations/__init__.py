"""The operations view: screen, table and details."""
