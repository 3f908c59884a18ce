"""The audit's lines: what they say, how they are chosen and printed."""
