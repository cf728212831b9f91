"""The landing page and the first steps."""
