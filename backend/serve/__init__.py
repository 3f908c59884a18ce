"""`kshunt serve`: puts the parts of a backend together, and runs it."""
