"""How every replica comes to hold what its leader holds: a fluid model in columns."""
