"""The Spark session, and how rows and files go into it."""
