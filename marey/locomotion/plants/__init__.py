"""Foot plants: detection, schedule, easing, and the leg that holds a foot in place; independent of engine and model."""
