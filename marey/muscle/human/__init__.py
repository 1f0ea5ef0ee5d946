"""Muscles of the human body over a motion, and a soft arm that reaches."""
