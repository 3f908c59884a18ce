"""The history view: screen, sections and results of the data pipeline."""
