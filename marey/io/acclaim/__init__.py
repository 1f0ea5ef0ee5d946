"""Acclaim files: skeletons (`.asf`) and their motions (`.amc`)."""
