"""Recorded samples as Spark reads them, and what is expected of them."""
