"""Forecasts of simulated operations while they run, and how they turned out."""
