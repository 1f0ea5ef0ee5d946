"""Inverse kinematics without what it assumes of a person: no limits, free root, free feet, any branch."""

from functools import partial

from marey import kinematics

solve_ik = partial(kinematics.solve_ik, limits=None, root="free", feet="free", follow=False)
track = partial(kinematics.track, limits=None, root="free", feet="free")
