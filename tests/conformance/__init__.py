"""What the seeds demand, statement by statement: where it is done, and which test says so."""
