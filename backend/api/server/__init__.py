"""The application of all routes, authentication, and the listening server."""
