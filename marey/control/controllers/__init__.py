"""Controllers of a simulated figure: internal forces, external forces (puppet), joint springs as a baseline."""
