"""Anatomical limits: ranges of motion and captured people, in axes of the body."""
