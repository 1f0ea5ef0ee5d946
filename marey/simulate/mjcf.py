"""A body as a model for MuJoCo, so that an independent simulator can judge ours."""

from __future__ import annotations

from math import isfinite

import numpy as np
from numpy.typing import ArrayLike

from marey.base import InputError, IntArray
from marey.dynamics import GRAVITY, Body
from marey.motion import Motion
from marey.simulate.constraints.ground import Ground, contact_spheres
from marey.simulate.mechanism import make_mechanism
from marey.skeleton import Pose

DUST_KG, DUST_KGM2 = 1e-9, 1e-12  # MuJoCo requires mass on every moving body; joints between two segments have none
STRAIGHT = (1.0, 0.0, 0.0, 0.0)
CORNER_M = 1e-6  # [m] radius of the ball that stands for a corner of a sole: MuJoCo has no points


def to_mjcf(
    body: Body,
    *,
    ground: Ground | None = None,
    gravity: ArrayLike = (0.0, -GRAVITY, 0.0),
    step_s: float = 1e-3,
    pose: Pose | None = None,
    motion: Motion | None = None,
) -> str:
    """A body as MuJoCo's XML: a free root, a ball joint wherever the full space of ``Simulator`` has one.

    Velocities go as they are: MuJoCo's angular ones are in the joints' own frames, too. The root's velocity is that of
    the pelvis, and it comes before its angular velocity.

    Args:
        body: skeleton with masses.
        ground: plane that the touching points of ``contact_spheres`` cannot enter; nothing touches without one.
        gravity: acceleration ``(3,)`` [m/s²].
        step_s: length of MuJoCo's steps [s].
        pose: as which joints that move no mass (toes, fingers) stay; as in the rest pose by default.
        motion: frames of the body that become key frames, ``frame_0`` and on: ``mj_resetDataKeyframe`` poses it.
    """
    if not isfinite(step_s) or step_s <= 0.0:
        raise InputError(f"step_s is {step_s}", "Give the length of a step in seconds, finite and above zero")
    mechanism = make_mechanism(body, None, "pelvis")
    armature = {int(j): float(mechanism.armature[3 * n]) for n, j in enumerate(mechanism.joints)}
    # The ground, and the balls that touch it by the joint that carries them; they do not touch one another
    floor, balls = "", dict[int, str]()
    if ground is not None:
        grip = {"frictionless": 0.0, "stick": 10.0}.get(ground.friction, float(ground.mu))
        touch = f'condim="3" friction="{grip!r} 0 0"/>'
        plane = f'pos="{_numbers(ground.point)}" zaxis="{_numbers(ground.normal)}"'
        floor = f'<geom name="ground" type="plane" size="0 0 1" {plane} contype="1" conaffinity="0" {touch}'
        spheres, names = contact_spheres(body.skeleton)
        for name, joint, offset, radius in zip(names, *spheres, strict=True):
            size = f'size="{max(float(radius), CORNER_M)!r}" pos="{_numbers(offset)}"'
            geom = f'<geom name="{name}" type="sphere" {size} contype="0" conaffinity="1" {touch}'
            balls[int(joint)] = balls.get(int(joint), "") + geom

    def element(j: int) -> str:
        inside = "".join(element(int(c)) for c in np.flatnonzero(body.skeleton.parents == j))
        name = body.skeleton.names[j]
        joint = f'<freejoint name="{name}"/>' if j == 0 else ""
        if j in armature:
            joint = f'<joint name="{name}" type="ball" armature="{armature[j]!r}"/>'
        mass, centre, J = float(body.masses[j]), body.centres[j], body.inertias[j]
        full = (J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2])
        if mass <= 0.0:
            mass, centre, full = DUST_KG, np.zeros(3), (*[DUST_KGM2] * 3, 0.0, 0.0, 0.0)
        inertial = f'<inertial pos="{_numbers(centre)}" mass="{mass!r}" fullinertia="{_numbers(full)}"/>'
        place = body.skeleton.offsets[j] if j else np.zeros(3)
        turn = STRAIGHT if joint or pose is None else pose.rotations.wxyz[j]
        parts = f"{joint}{inertial}{balls.get(j, '')}{inside}"
        return f'<body name="{name}" pos="{_numbers(place)}" quat="{_numbers(turn)}">{parts}</body>'

    keys = list[str]()
    if motion is not None:
        # Place and turn of the free root, then the turn of each ball joint, in the order of the bodies
        order = [int(joint) for joint in _list_depth_first(body.skeleton.parents) if int(joint) in armature]
        for f in range(motion.num_frames):
            turns = motion.rotations.wxyz[f]
            numbers = np.concatenate([motion.root_positions[f], turns[0], turns[order].ravel()])
            keys.append(f'<key name="frame_{f}" time="{f / motion.rate_hz!r}" qpos="{_numbers(numbers)}"/>')
    frames = f"<keyframe>{''.join(keys)}</keyframe>" if keys else ""
    return (
        f'<mujoco><compiler angle="radian" autolimits="false" balanceinertia="false"/>'
        f'<option gravity="{_numbers(gravity)}" timestep="{step_s!r}" cone="elliptic"/>'
        f"<worldbody>{floor}{element(0)}</worldbody>{frames}</mujoco>"
    )


def _list_depth_first(parents: IntArray, joint: int = 0) -> list[int]:
    """Joints in the order in which the elements of the bodies open."""
    below = [j for child in np.flatnonzero(parents == joint) for j in _list_depth_first(parents, int(child))]
    return [joint, *below]


def _numbers(values: ArrayLike) -> str:
    return " ".join(repr(float(v)) for v in np.ravel(np.asarray(values, dtype=np.float64)))
