"""The default codec: closed-loop prediction with a guaranteed bound on the error of every frame."""
