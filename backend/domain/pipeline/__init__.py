"""Recorded samples and the pipeline's results: columns, units, age."""
