"""From a verdict or an anomaly to training that moves again, a person in charge until the record says."""
