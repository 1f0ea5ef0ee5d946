"""Transitions from a gait to a jump and back: alignment, planning, and the jump state machine."""
