"""Policies and the record that lets them act: versions, promotion, labels, simulation."""
