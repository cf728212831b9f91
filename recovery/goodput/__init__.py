"""What failures cost, and where the time of recovery went."""
