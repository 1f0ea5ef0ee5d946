"""Mass, motion and force: bodies, inverse dynamics, momentum, contact cones, validity."""

__all__: list[str] = []
