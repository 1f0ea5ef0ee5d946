"""Optimal control of soft bodies and particles by adjoint gradients."""
