"""What an operator changes in the dashboard."""
