"""The quadratic programme of one constrained step."""
