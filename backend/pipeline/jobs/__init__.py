"""The two jobs that make the tables: `backfill` of a period, and `run`, which keeps up."""
