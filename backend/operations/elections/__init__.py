"""Leader elections: preferred (KIP-183) and unclean (KIP-460)."""
