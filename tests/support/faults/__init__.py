"""Networks, disks and clients that fail."""
