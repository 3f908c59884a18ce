"""What an operator can ask for: each verb's intent and its wizard."""
