"""Readers that run in a child process, because the library below them may crash on a damaged file."""
