"""Anytime search (ARA*) of a motion graph for a sketch."""
