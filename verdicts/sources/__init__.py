"""The configured sources: how they are, and whether they can be trusted to speak."""
