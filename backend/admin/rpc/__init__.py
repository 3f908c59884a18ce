"""Connections to brokers, single requests over them, and what their errors mean."""
