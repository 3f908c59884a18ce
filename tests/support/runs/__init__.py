"""What a run of the tests consists of."""
