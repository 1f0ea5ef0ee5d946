"""A simulated figure under the hand: settings, what it wants, pulls, pushes and balls, and its recording."""
