"""Stored lines: looked for, put in order, shown."""
