"""Values that strangers wrote: read within bounds, checked by type."""
