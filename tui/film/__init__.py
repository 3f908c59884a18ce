"""Recordings for people without kshunt: casts for a terminal player, and pictures."""
