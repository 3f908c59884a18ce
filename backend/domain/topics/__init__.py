"""Topics: descriptions, configs, counts, alterations, and their clients."""
