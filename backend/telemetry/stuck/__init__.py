"""Why a replica does not advance, and what is said of it."""
