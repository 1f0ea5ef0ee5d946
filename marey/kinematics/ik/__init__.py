"""Inverse kinematics: tasks, the projected Levenberg-Marquardt solvers, single poses and whole clips."""
