"""Integrators of time: geometric [Tournier2011]_ (11.12) to (11.14), variational (11.11), damping and substeps."""
