"""Constraints of a figure in one step: ground, joint limits, pins, balls."""
