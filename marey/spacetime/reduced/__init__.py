"""Trajectory optimisation in the reduced space of poses of a behaviour."""
