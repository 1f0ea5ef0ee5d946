"""Inverse dynamics of a whole clip, 10 000 frames of 31 ball joints, against pinocchio.rnea frame by frame."""

from __future__ import annotations

from typing import Any

import numpy as np
from harness import Row, compare, measure
from synthetic import tree_of_31

from marey.dynamics import GRAVITY, Body, MotionStates, solve_inverse_dynamics, solve_newton_euler
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import Skeleton

FRAMES = 10_000
AGREE = 1e-9  # relative: torques and root wrench
BUDGET_MS = 300.0  # for smoothing, differentiating and inverse dynamics together


def body_of_31() -> Body:
    """Every joint carries mass, so that nobody may skip one."""
    parents, offsets = tree_of_31()
    skeleton = Skeleton(tuple(f"j{i}" for i in range(31)), parents, 0.01 * offsets)
    inertias = np.tile(np.diag([0.02, 0.01, 0.02]), (31, 1, 1))
    return Body(skeleton, np.full(31, 2.3), np.full((31, 3), 0.03), inertias, 1.75)


def random_states() -> MotionStates:
    """Poses all over the group, moving anyhow."""
    rng = np.random.default_rng(3)
    roots, turns = rng.normal(size=(3, FRAMES, 3)), rng.normal(size=(2, FRAMES, 31, 3))
    return MotionStates(roots[0], roots[1], roots[2], SO3.random(rng, FRAMES, 31), turns[0], turns[1])


def pinocchio_model(pin: Any, body: Body) -> Any:
    """A free root and ball joints, with the same pieces."""
    model = pin.Model()
    model.gravity.linear = np.array([0.0, -GRAVITY, 0.0])
    for j, name in enumerate(body.skeleton.names):
        parent = int(body.skeleton.parents[j])
        joint = pin.JointModelFreeFlyer() if parent < 0 else pin.JointModelSpherical()
        number = model.addJoint(parent + 1, joint, pin.SE3(np.eye(3), body.skeleton.offsets[j]), name)
        piece = pin.Inertia(float(body.masses[j]), body.centres[j], body.inertias[j])
        model.appendBodyToJoint(number, piece, pin.SE3.Identity())
    return model


def pinocchio_vectors(given: MotionStates) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, v and a of all frames; the root moves in its own frame and its acceleration is spatial."""
    back = given.rotations[:, 0].inverse()
    v = back @ given.root_velocities
    a = back @ given.root_accelerations - np.cross(given.rates[:, 0], v)
    turns = given.rotations.wxyz[..., [1, 2, 3, 0]].reshape(FRAMES, -1)
    rates, changes = given.rates.reshape(FRAMES, -1), given.rate_changes.reshape(FRAMES, -1)
    return tuple(np.concatenate(parts, axis=1) for parts in ((given.root_positions, turns), (v, rates), (a, changes)))  # pyright: ignore[reportReturnType]


def rows() -> list[Row]:
    """Check that both agree, then race them."""
    import pinocchio as pin

    body, given = body_of_31(), random_states()
    model = pinocchio_model(pin, body)
    data = model.createData()
    q, v, a = pinocchio_vectors(given)

    def loop() -> np.ndarray:
        return np.array([pin.rnea(model, data, q[f], v[f], a[f]) for f in range(FRAMES)])

    theirs = loop()[:, 3:]
    ours = solve_newton_euler(body, given).torques.reshape(FRAMES, -1)
    gap = np.abs(ours - theirs).max() / np.abs(theirs).max()
    if gap > AGREE:
        raise SystemExit(f"the torques differ by {gap:.1e} of the largest: the race would be void")
    clip = Motion(body.skeleton, 120.0, given.root_positions, SO3.exp(0.3 * np.cumsum(given.rates, axis=0) / 120.0))
    name = "inverse dynamics, 10 000 x 31 balls"
    return [
        compare(name, lambda: solve_newton_euler(body, given), "pin.rnea", loop, repeats=12, bar=1.5),
        measure("clip to forces, 10 000 x 31 joints", lambda: solve_inverse_dynamics(body, clip), limit_ms=BUDGET_MS),
    ]
