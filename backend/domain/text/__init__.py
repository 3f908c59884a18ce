"""Sizes, times and lists in words, and deadlines as people type them."""
