"""What is asked of sources for an attempt, when, and what came: the writers of it."""
