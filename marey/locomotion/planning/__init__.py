"""Plans of what a walker does: parameters over time, run-ups, speed profiles, paths on the ground."""
