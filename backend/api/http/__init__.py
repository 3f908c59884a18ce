"""Paths, bodies, problem documents, and how routes are declared."""
