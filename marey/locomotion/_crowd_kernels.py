"""Compiled loops over many characters: the walker's own clockwork and foot plants, one after the other."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, kernel
from marey.locomotion._engine_kernels import ParameterPlan, WalkerState, advance_walker, write_walker_frame
from marey.locomotion._model import GaitArrays
from marey.locomotion._plant_arrays import LegArrays, PlantOptions
from marey.locomotion._plant_kernels import plant_step
from marey.locomotion._pose_kernels import LEG_AT, BodyArrays, write_effectors


@kernel
def move_crowd(
    gaits: GaitArrays,
    build: BodyArrays,
    plans: ParameterPlan,
    walkers: WalkerState,
    dt: float,
    roots: FloatArray,
    rotations: FloatArray,
    landings: FloatArray,
) -> None:
    """Move all walkers on by ``dt`` [s] and pose them; every array has the characters first."""
    for i in range(roots.shape[0]):
        plan = ParameterPlan(plans.knots[i], plans.values[i])
        walker = WalkerState(
            walkers.clock[i],
            walkers.state[i],
            walkers.here[i],
            walkers.held[i],
            walkers.settling[i],
            walkers.until[i],
            walkers.places[i],
            walkers.shift[i],
            walkers.yaw[i],
            walkers.ease[i],
            walkers.feet[i],
            walkers.touch[i],
        )
        advance_walker(gaits, build, plan, walker, dt)
        write_walker_frame(gaits, build, walker, roots[i], rotations[i], landings[i])


@kernel
def plant_crowd(
    build: BodyArrays,
    legs: LegArrays,
    ease_s: float,
    walkers: WalkerState,
    states: FloatArray,
    dt: float,
    roots: FloatArray,
    rotations: FloatArray,
    landings: FloatArray,
) -> None:
    """Hold all feet to the ground, and tell the walkers where they are."""
    for i in range(roots.shape[0]):
        leg = walkers.places[i, 0, LEG_AT]
        bits = plant_step(
            dt,
            walkers.held[i],
            walkers.until[i],
            landings[i],
            PlantOptions(walkers.shift[i], walkers.yaw[i], ease_s),
            0.0,
            leg / build.own_leg,
            legs,
            states[i],
            roots[i],
            rotations[i],
        )
        write_effectors(build, leg, roots[i], rotations[i], walkers.feet[i])
        for e in range(4):
            walkers.touch[i, e] = np.bool_((bits >> e) & 1)
