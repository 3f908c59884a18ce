"""Requests and answers for validation and for OpenAPI; the server's side."""
