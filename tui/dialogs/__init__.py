"""Dialogs that any view opens, and what every dialog is made of."""
