"""The data plane: replication and logs follow the image."""
