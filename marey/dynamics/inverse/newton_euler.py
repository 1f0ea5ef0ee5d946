"""Inverse dynamics: the forces and torques that a motion needs, by Newton-Euler on ball joints under a free root.

The ground's forces are put on the feet that touch it, so that the torques of the legs are true.

Arrays have rows for all joints of all frames, frame by frame. Scratch rows of a joint hold its position, velocity,
acceleration, angular velocity and angular acceleration in world.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray, frozen, kernel, split_blocks
from marey.dynamics.bodies import GRAVITY, Body
from marey.dynamics.inverse.differentiation import MotionStates, compute_states, smooth_motion
from marey.dynamics.inverse.support_split import split_support
from marey.dynamics.linear_time.passes import gravity_vector
from marey.dynamics.spatial import rotate, rotate_back
from marey.dynamics.supports import find_supports
from marey.lie.kernels import Vector, add3, cross, dot, put3, row3, scale3, subtract3
from marey.motion import Contacts, Motion
from marey.skeleton import role_map

POSITION, VELOCITY, ACCELERATION, OMEGA, ALPHA, ROWS = 0, 1, 2, 3, 4, 5
SUMS = 13  # mass times position, velocity, acceleration; angular momentum about the world origin; kinetic energy


class PieceArrays(NamedTuple):
    """A body as the kernels take it."""

    parents: IntArray  # (J,)
    offsets: FloatArray  # (J, 3) [m]
    masses: FloatArray  # (J,) [kg] of the pieces
    centres: FloatArray  # (J, 3) [m] in the joints' frames
    inertias: FloatArray  # (J, 3, 3) [kg m²] about the centres


class ClipArrays(NamedTuple):
    """States of F frames as the kernels take them; see ``MotionStates``."""

    roots: FloatArray  # (F 3, 3) position, velocity, acceleration of the root in world
    wxyz: FloatArray  # (F J, 4) R_parent_joint
    rates: FloatArray  # (F J, 3) [rad/s] of each joint against its parent, in the joint's frame
    changes: FloatArray  # (F J, 3) [rad/s²] their time derivatives, in the joint's frame


@kernel
def _rotation_columns(wxyz: FloatArray, n: int) -> tuple[Vector, Vector, Vector]:
    """Columns of the rotation matrix of a unit quaternion."""
    w, x, y, z = wxyz[n, 0], wxyz[n, 1], wxyz[n, 2], wxyz[n, 3]
    return (
        (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)),
        (2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x)),
        (2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)),
    )


@kernel
def _put_rotation_columns(R: FloatArray, j: int, a: Vector, b: Vector, c: Vector) -> None:
    for i in range(3):
        R[j, i, 0] = a[i]
        R[j, i, 1] = b[i]
        R[j, i, 2] = c[i]


@kernel
def _point_motion(s: FloatArray, p: int, r: Vector) -> tuple[Vector, Vector, Vector]:
    """Position, velocity and acceleration of a point at ``r`` (world axes) from the origin of joint ``p``."""
    omega = row3(s, ROWS * p + OMEGA)
    swing = cross(omega, r)
    inwards = add3(cross(row3(s, ROWS * p + ALPHA), r), cross(omega, swing))
    return (
        add3(row3(s, ROWS * p + POSITION), r),
        add3(row3(s, ROWS * p + VELOCITY), swing),
        add3(row3(s, ROWS * p + ACCELERATION), inwards),
    )


@kernel
def _inertia_times(R: FloatArray, j: int, inertias: FloatArray, v: Vector) -> Vector:
    r"""Inertia in world times a vector, :math:`R I R^T v`."""
    return rotate(R, j, rotate(inertias, j, rotate_back(R, j, v)))


@kernel
def newton_euler_clip(
    body: PieceArrays, clip: ClipArrays, external: FloatArray, gravity: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Inverse dynamics of F frames: forces and torques that the given motion needs.

    Args:
        body: masses and bones.
        clip: its motion.
        external: ``(F J, 6)`` force and moment about the world origin that act on each piece; or no rows.
        gravity: [m/s²] along -Y.

    Returns:
        Torques ``(F J, 3)`` in the joints' frames; force and moment about the world origin that the root needs
        ``(F 2, 3)``; ``SUMS`` of each frame.
    """
    parents, (roots, wxyz, rates, changes) = body.parents, clip
    joints = len(parents)
    frames = len(wxyz) // joints
    torques, wrench, sums = np.empty((frames * joints, 3)), np.empty((2 * frames, 3)), np.zeros((frames, SUMS))
    R, s = np.empty((joints, 3, 3)), np.empty((ROWS * joints, 3))
    forces, moments = np.empty((joints, 3)), np.empty((joints, 3))
    for f in range(frames):
        first = f * joints
        for j in range(joints):
            n = first + j
            if j == 0:
                # Rotation and motion of the root, whose path is given in world
                a, b, c = _rotation_columns(wxyz, n)
                _put_rotation_columns(R, 0, a, b, c)
                for k in range(3):
                    put3(s, k, row3(roots, 3 * f + k))
                put3(s, OMEGA, rotate(R, 0, row3(rates, n)))
                put3(s, ALPHA, rotate(R, 0, row3(changes, n)))
            else:
                # B.1-B.4: rotation and motion of a joint from its parent's
                above = parents[j]
                offset = row3(body.offsets, j)
                right, up, front = _rotation_columns(wxyz, n)
                _put_rotation_columns(R, j, rotate(R, above, right), rotate(R, above, up), rotate(R, above, front))
                position, velocity, acceleration = _point_motion(s, above, rotate(R, above, offset))
                omega = row3(s, ROWS * above + OMEGA)
                own = rotate(R, j, row3(rates, n))
                change = rotate(R, j, row3(changes, n))
                put3(s, ROWS * j + POSITION, position)
                put3(s, ROWS * j + VELOCITY, velocity)
                put3(s, ROWS * j + ACCELERATION, acceleration)
                put3(s, ROWS * j + OMEGA, add3(omega, own))
                put3(s, ROWS * j + ALPHA, add3(add3(row3(s, ROWS * above + ALPHA), change), cross(omega, own)))
            # B.5: what the piece needs, less what the world gives
            force, moment = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
            if body.masses[j] > 0.0:
                # Newton and Euler for one piece: m a, and I alpha + omega x I omega
                mass, inertias = body.masses[j], body.inertias
                omega = row3(s, ROWS * j + OMEGA)
                r = rotate(R, j, row3(body.centres, j))
                position, velocity, acceleration = _point_motion(s, j, r)
                spin = _inertia_times(R, j, inertias, omega)
                rate = add3(_inertia_times(R, j, inertias, row3(s, ROWS * j + ALPHA)), cross(omega, spin))
                linear = scale3(mass, velocity)
                about = add3(spin, cross(position, linear))
                # Sums of the frame: first moment, linear momentum, its rate, angular momentum, kinetic energy
                for k in range(3):
                    sums[f, k] += mass * position[k]
                    sums[f, 3 + k] += linear[k]
                    sums[f, 6 + k] += mass * acceleration[k]
                    sums[f, 9 + k] += about[k]
                sums[f, 12] += 0.5 * (dot(linear, velocity) + dot(omega, spin))
                # Force against gravity, and its moment about the joint
                force = scale3(mass, (acceleration[0], acceleration[1] + gravity, acceleration[2]))
                moment = add3(rate, cross(r, force))
            if len(external):
                push = (external[n, 0], external[n, 1], external[n, 2])
                twist = (external[n, 3], external[n, 4], external[n, 5])
                force = subtract3(force, push)
                moment = subtract3(moment, add3(twist, cross(push, row3(s, ROWS * j + POSITION))))
            put3(forces, j, force)
            put3(moments, j, moment)
        # B.6: forces and moments from the leaves to the root; torques are the moments in the joints' frames
        for j in range(joints - 1, -1, -1):
            load, turning = row3(forces, j), row3(moments, j)
            put3(torques, first + j, rotate_back(R, j, turning))
            if j > 0:
                p = parents[j]
                lever = subtract3(row3(s, ROWS * j + POSITION), row3(s, ROWS * p + POSITION))
                put3(forces, p, add3(row3(forces, p), load))
                put3(moments, p, add3(row3(moments, p), add3(turning, cross(lever, load))))
        # The root needs all of it, its moment taken about the world origin
        put3(wrench, 2 * f, row3(forces, 0))
        put3(wrench, 2 * f + 1, add3(row3(moments, 0), cross(row3(s, POSITION), row3(forces, 0))))
    return torques, wrench, sums


CUTOFF_HZ: Final = 6.0  # [Winter2009]_ for walking; nearest to measured ground forces, and to no force in flight
EDGE_PERIODS: Final = 0.3  # of the cutoff: frames nearer than this to an end know one side of their acceleration only


class JointLoads(NamedTuple):
    """Motion and torques of the joints."""

    states: MotionStates  # the smoothed motion that all the rest belongs to
    torques: FloatArray  # (F, J, 3) [N m] on each joint by its parent, in the joint's frame


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class InverseDynamics:
    """Forces, torques and momenta of F frames.

    Wrenches are (force, moment), force first, as in [Fang2003]_; twists and wrenches of ``marey.lie`` have the turning
    part first. The wrench is what the world must supply: gravity is already counted.
    """

    body: Body
    rate_hz: float
    joints: JointLoads | Motion  # or the clip on the body's skeleton, from which they are computed when asked for
    wrench: FloatArray  # (F, 6) [N, N m] force and moment about the world origin, world axes
    com: FloatArray  # (F, 3) [m]
    com_velocity: FloatArray  # (F, 3) [m/s]
    com_acceleration: FloatArray  # (F, 3) [m/s²]
    angular_momentum: FloatArray  # (F, 3) [kg m²/s] about the centre of mass
    kinetic_energy: FloatArray  # (F,) [J]
    gravity: float = GRAVITY
    cutoff_hz: float | None = None  # of the low-pass that the states went through

    def __post_init__(self) -> None:
        for name in ("wrench", "com", "com_velocity", "com_acceleration", "angular_momentum", "kinetic_energy"):
            getattr(self, name).setflags(write=False)
        if isinstance(self.joints, JointLoads):
            self.joints.torques.setflags(write=False)

    @property
    def states(self) -> MotionStates:
        """The smoothed motion that all the rest belongs to."""
        return (
            self.joints.states if isinstance(self.joints, JointLoads) else compute_states(self.joints, self.cutoff_hz)
        )

    @property
    def torques(self) -> FloatArray:
        """Torques ``(F, J, 3)`` [N m] on each joint by its parent, in the joint's frame."""
        if isinstance(self.joints, JointLoads):
            return self.joints.torques
        return solve_newton_euler(self.body, self.states, self.rate_hz, gravity=self.gravity).torques

    @property
    def times(self) -> FloatArray:
        """Time of each frame [s], from zero."""
        return np.arange(len(self.wrench)) / self.rate_hz

    @property
    def num_frames(self) -> int:
        """How many frames there are."""
        return len(self.wrench)

    @property
    def settled(self) -> BoolArray:
        """Frames ``(F,)`` far enough from the ends of the clip, 0.3 periods of the cutoff, to trust their forces.

        Where a clip is cut, the vertical force of the outermost frames changes by 0.19 of body weight (root mean
        square over 8 walks and jumps), of frames further in than this by less than 0.04.
        """
        edge = 0 if self.cutoff_hz is None else round(EDGE_PERIODS * self.rate_hz / self.cutoff_hz)
        inside = np.arange(self.num_frames)
        return (inside >= edge) & (inside < self.num_frames - edge)

    @property
    def forces(self) -> FloatArray:
        """Force ``(F, 3)`` [N] that the world must supply."""
        return self.wrench[:, :3]

    @property
    def moments(self) -> FloatArray:
        """Moment ``(F, 3)`` [N m] about the centre of mass that the world must supply: the rate of the momentum."""
        return self.wrench[:, 3:] - np.cross(self.com, self.forces)

    @property
    def linear_momentum(self) -> FloatArray:
        """Linear momentum ``(F, 3)`` [kg m/s]."""
        return self.body.mass_kg * self.com_velocity

    @property
    def potential_energy(self) -> FloatArray:
        """Potential energy ``(F,)`` [J], zero at height zero."""
        return self.body.mass_kg * self.gravity * self.com[:, 1]

    @property
    def vertical_force(self) -> FloatArray:
        """Upward force over body weight ``(F,)``."""
        return self.forces[:, 1] / self.body.weight_n

    def motion(self) -> Motion:
        """Return the smoothed clip that these forces belong to, on the body's skeleton."""
        return Motion(self.body.skeleton, self.rate_hz, self.states.root_positions, self.states.rotations)

    def __repr__(self) -> str:
        return f"InverseDynamics({self.body!r}, {self.num_frames} frames, {self.rate_hz:g} Hz)"


def solve_inverse_dynamics(
    body: Body,
    motion: Motion,
    *,
    cutoff_hz: float | None = CUTOFF_HZ,
    contacts: Contacts | None = None,
    external: FloatArray | None = None,
    gravity: float = GRAVITY,
) -> InverseDynamics:
    """Forces and torques that a clip needs, every frame at once (Newton-Euler on ball joints).

    Everything that the world supplies acts on the root, so the wrench is right and the torques on the way from the
    root to a foot on the ground are not: give ``contacts``, or the forces themselves, to have those.

    Args:
        body: made by ``Body.from_motion(motion)``.
        motion: at least three frames, with the joints of the body.
        cutoff_hz: low-pass before differentiating, see ``smooth``; capped at 0.4 of the frame rate. ``None`` for
            motions that are smooth already.
        contacts: which points of the feet touch the ground; the wrench then acts on those feet, and the torques of
            the legs are true.
        external: ``(F, J, 6)`` force [N] and moment about the world origin [N m] that act on the piece of each joint;
            the wrench is what they leave to be supplied at the root.
        gravity: [m/s²] along -Y.

    Raises:
        InputError: fewer than three frames, other joints than the body's, arrays of the wrong shape, a gravity or
            forces that are not finite, both contacts and external forces, or body and motion in the wrong order.
    """
    check_argument_types("inverse_dynamics", body=body, motion=motion)
    if contacts is not None and external is not None:
        raise InputError("both contacts and external forces", "Give one: contacts replace the ground forces")
    motion = body.motion(motion)
    cutoff = None if cutoff_hz is None else min(cutoff_hz, 0.4 * motion.rate_hz)
    result = solve_newton_euler(
        body, compute_states(motion, cutoff), motion.rate_hz, external=external, gravity=gravity
    )
    result = replace(result, cutoff_hz=cutoff)
    if contacts is None:
        return result

    # Same forces with the torques of a body that stands on its feet rather than hangs by its root
    push = compute_ground_reaction(result, contacts)
    loaded = solve_newton_euler(result.body, result.states, result.rate_hz, external=push, gravity=result.gravity)
    return replace(result, joints=loaded.joints)


BLOCK_FRAMES: Final = 2048
EDGE_FRAMES: Final = 2  # that five-point differences reach to either side


def solve_body_wrench(
    body: Body, motion: Motion, *, cutoff_hz: float | None = CUTOFF_HZ, gravity: float = GRAVITY
) -> InverseDynamics:
    """As :func:`solve_inverse_dynamics`, a block of frames at a time; joints are solved again when they are asked for.

    Numbers are the same, bit for bit, in a quarter of the memory.
    """
    motion = body.motion(motion)
    cutoff = None if cutoff_hz is None else min(cutoff_hz, 0.4 * motion.rate_hz)
    smooth = motion if cutoff is None else smooth_motion(motion, cutoff)
    names = ("wrench", "com", "com_velocity", "com_acceleration", "angular_momentum", "kinetic_energy")
    rows: dict[str, list[FloatArray]] = {name: [] for name in names}
    for part in split_blocks(len(motion), BLOCK_FRAMES):
        first = max(part.start - EDGE_FRAMES, 0)
        states = compute_states(smooth[first : part.stop + EDGE_FRAMES])
        solved = solve_newton_euler(body, states, motion.rate_hz, gravity=gravity, first_frame=first)
        for name in names:
            rows[name].append(getattr(solved, name)[part.start - first : part.stop - first].copy())
    found = {name: np.concatenate(values) for name, values in rows.items()}
    return InverseDynamics(body, motion.rate_hz, motion, **found, gravity=float(gravity), cutoff_hz=cutoff)


def solve_newton_euler(
    body: Body,
    given: MotionStates,
    rate_hz: float = 1.0,
    *,
    external: FloatArray | None = None,
    gravity: float = GRAVITY,
    first_frame: int = 0,
) -> InverseDynamics:
    """As :func:`inverse_dynamics` for positions, rates and accelerations that are known, from a frame of a clip on."""
    frames, joints = given.rotations.shape
    if joints != body.skeleton.num_joints:
        raise InputError(f"the states have {joints} joints, the body {body.skeleton.num_joints}")
    pushed = 0 if external is None else frames
    push = frozen(np.zeros((0, joints, 6)) if external is None else external, pushed, joints, 6, name="external")
    roots = np.stack([given.root_positions, given.root_velocities, given.root_accelerations], axis=1)
    pieces = PieceArrays(body.skeleton.parents, body.skeleton.offsets, body.masses, body.centres, body.inertias)
    turns = (given.rotations.wxyz.reshape(-1, 4), given.rates.reshape(-1, 3), given.rate_changes.reshape(-1, 3))
    clip = ClipArrays(roots.reshape(-1, 3), *turns)
    torques, wrench, sums = newton_euler_clip(pieces, clip, push.reshape(-1, 6), -float(gravity_vector(gravity)[1]))
    # Coordinates in wrong units overflow
    results = (torques.reshape(frames, -1), wrench.reshape(frames, -1), sums)
    bad = np.any([~np.isfinite(values).all(axis=1) for values in results], axis=0)
    if bad.any():
        at = first_frame + int(np.argmax(bad))
        raise InputError(f"the forces overflow at frame {at}", "Check units, rate and coordinates")
    mass = body.mass_kg
    com, velocity, acceleration = (sums[:, k : k + 3] / mass for k in (0, 3, 6))
    return InverseDynamics(
        body=body,
        rate_hz=rate_hz,
        joints=JointLoads(given, torques.reshape(frames, joints, 3)),
        wrench=wrench.reshape(frames, 6),
        com=com,
        com_velocity=velocity,
        com_acceleration=acceleration,
        angular_momentum=sums[:, 9:12] - mass * np.cross(com, velocity),
        kinetic_energy=sums[:, 12],
        gravity=float(gravity),
    )


def check_argument_types(function: str, **given: object) -> None:
    """Say so when a body and a motion are mixed up: ``validity`` takes the motion first, others the body."""
    wanted = {"body": Body, "motion": Motion}
    if not all(isinstance(value, wanted[name]) for name, value in given.items()):
        kinds = ", ".join(type(value).__name__ for value in given.values())
        raise InputError(f"{function} of {kinds}", f"Give a {', then a '.join(wanted[n].__name__ for n in given)}")


def compute_ground_reaction(result: InverseDynamics, contacts: Contacts) -> FloatArray:
    """Force [N] and moment about the world origin [N m] of the ground on each joint's piece, ``(F, J, 6)``."""
    motion = result.motion()
    supports = find_supports(motion, contacts)
    split = split_support(result.wrench, supports)
    moments = np.cross(split.places, split.forces) + split.moments
    push = np.zeros((result.num_frames, motion.skeleton.num_joints, 6))
    roles = role_map(motion.skeleton)
    for limb, ankle in enumerate(("left_ankle", "right_ankle")):
        push[:, roles[ankle], :3] = split.forces[:, limb]
        push[:, roles[ankle], 3:] = moments[:, limb]
    return push


def compute_momentum(body: Body, motion: Motion, *, cutoff_hz: float | None = CUTOFF_HZ) -> FloatArray:
    """Linear [kg m/s] and angular momentum about the centre of mass [kg m²/s], ``(F, 6)``, in world.

    Args:
        body: made by ``Body.from_motion(motion)``.
        motion: at least three frames.
        cutoff_hz: as in ``solve_inverse_dynamics``.
    """
    result = solve_inverse_dynamics(body, motion, cutoff_hz=cutoff_hz)
    return np.concatenate([result.linear_momentum, result.angular_momentum], axis=1)
