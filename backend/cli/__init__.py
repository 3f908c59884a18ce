"""The `kshunt` command: it puts the parts together."""
