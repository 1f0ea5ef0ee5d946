"""Scripts on a time line and sketches on the ground, performed by the engine."""
