"""What is looked at and agreed to before a change."""
