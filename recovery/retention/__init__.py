"""Retention: what of an attempt expires when, what is held, and what is left of what expired. See docs/retention.md."""
