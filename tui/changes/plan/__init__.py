"""The plan wizard: goals, choices, a proposal, rehearsals side by side."""
