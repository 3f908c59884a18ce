"""What the data pipeline has delivered, how it stands, and its process."""
