"""Controllers of a simulated figure: internal forces, a puppet on strings, joint springs as a baseline."""
