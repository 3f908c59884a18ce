"""The throttles view: screen, table and details."""
