"""Retention drills: whether a record can be had before clean-up, is what it should be, and clean-up removes it.

See docs/drill.md.
"""
