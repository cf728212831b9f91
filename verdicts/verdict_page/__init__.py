"""One verdict arranged for reading: its answers, its timeline, what changed, what is related."""
