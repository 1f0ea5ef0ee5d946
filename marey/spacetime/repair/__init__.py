"""Repair of invalid clips: the smallest displacement that makes them valid."""
