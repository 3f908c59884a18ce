"""A cluster without sockets: what it is made of, its commands and clock, what survives it."""
