"""Soft bodies: time steps, linear solver, bones, and contact with the ground."""
