"""How forecasts turned out, and the ranges of time that follow from it."""
