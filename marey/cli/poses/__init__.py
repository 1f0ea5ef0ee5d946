"""Verbs of poses: fits of models, inverse kinematics, joint limits, tracking."""
