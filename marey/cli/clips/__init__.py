"""Verbs that read, change, measure and learn from clips."""
