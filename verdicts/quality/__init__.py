"""How often verdicts are wrong."""
