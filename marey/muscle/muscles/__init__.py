"""Activation splines in soft bodies: embedding, regions, force transfer, Hill curves, programmes."""
