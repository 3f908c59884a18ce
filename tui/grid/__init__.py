"""Widgets: the grid of every table, panes, plots, tabs, key bar."""
