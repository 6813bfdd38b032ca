"""Runs that end in a table and a plot."""
