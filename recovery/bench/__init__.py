"""Measurements of recovery policies over made-up fleets."""
