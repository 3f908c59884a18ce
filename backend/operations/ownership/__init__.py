"""Which operations own which throttle, and what was there before. Pure."""
