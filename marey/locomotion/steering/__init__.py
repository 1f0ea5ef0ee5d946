"""Steering along paths: guides that stop and leap, and obstacles that are jumped over or walked round."""
