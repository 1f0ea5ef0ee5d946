"""The validity check of motions."""
