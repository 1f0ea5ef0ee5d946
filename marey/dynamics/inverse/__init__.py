"""Inverse dynamics of clips: differentiation, Newton-Euler, the split of the ground reaction, momenta."""
