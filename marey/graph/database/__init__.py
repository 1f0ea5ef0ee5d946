"""Clips made ready for a graph: events, contact phases, transitions between alike poses, compact paths."""
