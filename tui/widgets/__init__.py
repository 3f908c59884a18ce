"""One widget a module."""
