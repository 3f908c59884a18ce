"""The audit over the operations view: screen and table."""
