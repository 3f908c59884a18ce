"""Groups and transactions: what clients ask coordinators."""
