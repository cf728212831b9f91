"""Incidents that people bring: unpacked within limits, read and stored."""
