"""Rehearsals: a plan runs in a twin of the cluster, on a simulated clock."""
