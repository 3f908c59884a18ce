"""`kshunt plan`."""
