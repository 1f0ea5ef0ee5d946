"""Trajectory optimisation in the full space of joint angles."""
