"""The journal's port, its entries and records, and what they amount to."""
