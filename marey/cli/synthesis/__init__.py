"""Verbs that make motions: scripts, sketches, graphs, optimisation, simulation."""
