"""A body and its coordinates as plain arrays, and the compiled mechanics: Jacobians, inertia and momenta.

With :math:`L = T - V` in left-trivialised velocities, every term that an integrator needs comes from the columns that
carry a velocity to the twists of the segments. [Tournier2011]_ §11.1.2.
"""

from __future__ import annotations

from math import sqrt
from typing import Final, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marey.base import FloatArray, InputError, IntArray, UnknownNameError, kernel
from marey.dynamics import Body
from marey.lie.kernels import product
from marey.models import PoseModel
from marey.models.projection import model_jacobian, model_rotations

Root = Literal["com", "pelvis"]
ROOTS: Final[tuple[Root, ...]] = ("com", "pelvis")
FULL_SPACE: Final = -1  # every joint that moves mass is free to turn: no pose model
ARMATURE: Final = 1e-3  # [kg m²] of joints whose own segment has no mass: else they and their child turn as one


class Mechanism(NamedTuple):
    r"""What the kernels know of a body: its tree, its masses and its coordinates.

    A velocity is :math:`v = (\omega, \dot x, \dot\lambda)`: the root's angular velocity in its own frame [rad/s], the
    velocity in world [m/s] of the point that stands for the place (centre of mass or pelvis), and the rates of the
    coordinates. In the full space the rates are angular velocities of the joints, each in its own frame.
    """

    parents: IntArray  # (J,)
    offsets: FloatArray  # (J, 3) [m]
    masses: FloatArray  # (J,) [kg]
    centres: FloatArray  # (J, 3) [m]
    inertias: FloatArray  # (J, 3, 3) [kg m²]
    inertia_roots: FloatArray  # (J, 3, 3) r with r.T @ r = inertia
    kind: int  # of the pose model, or FULL_SPACE
    mean_wxyz: FloatArray  # (J, 4)
    basis: FloatArray  # (J, 3, k); in the full space the constant columns of the joints that move
    joints: IntArray  # (N,) joints that have coordinates of their own: in the full space only
    armature: FloatArray  # (k,) [kg m²] added to the inertia of each coordinate; it leaves every momentum as it is
    is_com: bool  # the place is that of the centre of mass
    ends: IntArray  # (E,) joints that nothing hangs on: hands, toes, head
    tips: FloatArray  # (E, 3) [m] their far ends, each in its joint's frame


class Mechanics(NamedTuple):
    """What can be said of a configuration before any velocity is known; everything in world axes [m]."""

    mechanism: Mechanism
    frames: FloatArray  # (J, 3, 3) of the joints
    joints: FloatArray  # (J, 3)
    centres: FloatArray  # (J, 3) of the segments' masses
    com: FloatArray  # (3,)
    turns: FloatArray  # (J, 3, k) of each joint in its own frame
    angular: FloatArray  # (J, 3, d) angular velocity of each segment
    linear: FloatArray  # (J, 3, d) velocity of each joint's origin
    com_jacobian: FloatArray  # (3, d)
    inertia: FloatArray  # (d, d) M(g)

    def point(self, joint: int, offset: ArrayLike = (0.0, 0.0, 0.0)) -> FloatArray:
        """Place ``(3,)`` [m] in world of a point that rides on a joint's segment."""
        return self.joints[joint] + self.frames[joint] @ np.asarray(offset, dtype=np.float64)

    def point_jacobian(self, joint: int, offset: ArrayLike = (0.0, 0.0, 0.0)) -> FloatArray:
        """Jacobian ``(3, d)`` of the velocity in world of a point that rides on a joint's segment."""
        arm = self.frames[joint] @ np.asarray(offset, dtype=np.float64)
        return self.linear[joint] + np.cross(self.angular[joint], arm, axisa=0, axisc=0)

    def momentum_matrix(self) -> FloatArray:
        """Matrix ``(6, d)`` to the angular momentum about the centre of mass and the linear one, in world."""
        return compute_momentum_matrix(self)


def make_mechanism(body: Body, model: PoseModel | None, root: Root) -> Mechanism:
    """Arrays of a body in the coordinates of a pose model, or in the full space.

    Raises:
        InputError: the model has other joints than the body, or the body has no mass.
        UnknownNameError: no such root.
    """
    if root not in ROOTS:
        raise UnknownNameError("root", str(root), "the simulator", ROOTS)
    if not body.mass_kg > 0.0:
        raise InputError("the body has no mass", "Give mass to its segments; see Body.from_motion")
    skeleton = body.skeleton
    if model is None:
        # Full space: joints below the root that carry mass, themselves or further out, are free to turn
        carries = np.array(body.masses)
        for j in range(len(carries) - 1, 0, -1):
            carries[skeleton.parents[j]] += carries[j]
        joints = 1 + np.flatnonzero(carries[1:] > 0.0)
        kind, mean_wxyz = FULL_SPACE, np.tile([1.0, 0.0, 0.0, 0.0], (skeleton.num_joints, 1))
        armature = np.repeat(np.where(body.masses[joints] > 0.0, 0.0, ARMATURE), 3)
        basis = np.zeros((skeleton.num_joints, 3, 3 * len(joints)))
        for n, j in enumerate(joints):
            basis[j, :, 3 * n : 3 * n + 3] = np.eye(3)
    else:
        if model.skeleton.names != skeleton.names:
            raise InputError(
                f"the model is of '{model.skeleton.name}', the body of '{skeleton.name}'; their joints differ",
                "Fit the model on clips of this skeleton, or retarget them",
            )
        arrays = model.arrays()
        kind, mean_wxyz, basis = arrays.kind, arrays.mean_wxyz, arrays.basis
        joints, armature = np.zeros(0, dtype=np.int64), np.zeros(model.num_components)
    ends = np.setdiff1d(np.arange(skeleton.num_joints), skeleton.parents)
    # Square roots r of the inertias, r^T r = I, some of which are zero
    values, axes = np.linalg.eigh(body.inertias)
    return Mechanism(
        parents=as_kernel_array(skeleton.parents),
        offsets=as_kernel_array(skeleton.offsets),
        masses=as_kernel_array(body.masses),
        centres=as_kernel_array(body.centres),
        inertias=as_kernel_array(body.inertias),
        inertia_roots=as_kernel_array(np.sqrt(np.maximum(values, 0.0))[..., None] * np.swapaxes(axes, -1, -2)),
        kind=kind,
        mean_wxyz=as_kernel_array(mean_wxyz),
        basis=as_kernel_array(basis),
        joints=as_kernel_array(joints),
        armature=as_kernel_array(armature),
        is_com=root == "com",
        ends=as_kernel_array(ends),
        tips=as_kernel_array(skeleton.tips[ends]),
    )


Kind = TypeVar("Kind", np.float64, np.int64)


def as_kernel_array(array: NDArray[Kind]) -> NDArray[Kind]:
    """Contiguous read-only array, so that each kernel is compiled for one kind."""
    view = np.ascontiguousarray(array)[...]
    view.setflags(write=False)
    return view


@kernel
def write_model_rotations(mech: Mechanism, coordinates: FloatArray, wxyz: FloatArray) -> None:
    """Write the local rotations of the coordinates of a pose model; root and full space stay as they are."""
    if mech.kind == FULL_SPACE:
        return
    root = wxyz[0].copy()
    model_rotations(mech.kind, mech.mean_wxyz, mech.basis, coordinates, wxyz)
    wxyz[0] = root


@kernel
def forward_kinematics(
    mech: Mechanism, place: FloatArray, wxyz: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """World frames ``(J, 3, 3)``, joints ``(J, 3)``, centres of segments ``(J, 3)`` and centre of mass ``(3,)`` [m]."""
    count = mech.parents.shape[0]
    frames, joints, centres, com = np.empty((count, 3, 3)), np.zeros((count, 3)), np.zeros((count, 3)), np.zeros(3)
    world = np.empty((count, 4))
    total = 0.0
    for j in range(count):
        # World rotation and place from those of the parent, root at the origin
        p = mech.parents[j]
        if p < 0:
            world[j] = wxyz[j]
        else:
            a, b = world[p], wxyz[j]
            w, x, y, z = product(a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3])
            world[j, 0], world[j, 1], world[j, 2], world[j, 3] = w, x, y, z
            for r in range(3):
                step = 0.0
                for c in range(3):
                    step += frames[p, r, c] * mech.offsets[j, c]
                joints[j, r] = joints[p, r] + step
        # Rotation matrix of the world quaternion
        out = frames[j]
        w, x, y, z = world[j, 0], world[j, 1], world[j, 2], world[j, 3]
        out[0, 0], out[0, 1], out[0, 2] = 1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)
        out[1, 0], out[1, 1], out[1, 2] = 2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)
        out[2, 0], out[2, 1], out[2, 2] = 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)
        # Centre of the segment, and its share of the centre of mass
        mass = mech.masses[j]
        total += mass
        for r in range(3):
            step = 0.0
            for c in range(3):
                step += frames[j, r, c] * mech.centres[j, c]
            centres[j, r] = joints[j, r] + step
            com[r] += mass * centres[j, r]
    com /= total
    # Move the whole so that its root, or its centre of mass, is at the given place
    shift = place - com if mech.is_com else place.copy()
    joints += shift
    centres += shift
    com += shift
    return frames, joints, centres, com


@kernel
def world_jacobians(
    mech: Mechanism, frames: FloatArray, joints: FloatArray, centres: FloatArray, turns: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Jacobians in world axes: angular ``(J, 3, d)``, of the joints' origins ``(J, 3, d)``, of the com ``(3, d)``."""
    count, size = mech.parents.shape[0], 6 + turns.shape[2]
    angular, linear, com = np.zeros((count, 3, size)), np.zeros((count, 3, size)), np.zeros((3, size))
    for j in range(count):
        p = mech.parents[j]
        if p < 0:
            # The root turns in its own frame and moves in world axes
            angular[j, :, :3] = frames[j]
            for r in range(3):
                linear[j, r, 3 + r] = 1.0
        else:
            # A joint inherits the columns of its parent: linear + angular x arm
            x, y, z = joints[j, 0] - joints[p, 0], joints[j, 1] - joints[p, 1], joints[j, 2] - joints[p, 2]
            for i in range(size):
                a, b, c = angular[p, 0, i], angular[p, 1, i], angular[p, 2, i]
                angular[j, 0, i], angular[j, 1, i], angular[j, 2, i] = a, b, c
                linear[j, 0, i] = linear[p, 0, i] + b * z - c * y
                linear[j, 1, i] = linear[p, 1, i] + c * x - a * z
                linear[j, 2, i] = linear[p, 2, i] + a * y - b * x
            # Own columns of the joint, turned into world axes
            for i in range(size - 6):
                u, v, w = turns[j, 0, i], turns[j, 1, i], turns[j, 2, i]
                if u != 0.0 or v != 0.0 or w != 0.0:
                    for r in range(3):
                        angular[j, r, 6 + i] += frames[j, r, 0] * u + frames[j, r, 1] * v + frames[j, r, 2] * w
    # Columns of the centre of mass: mean over the segments, weighted by mass
    total = mech.masses.sum()
    for j in range(count):
        if mech.masses[j] > 0.0:
            share = mech.masses[j] / total
            x, y, z = centres[j, 0] - joints[j, 0], centres[j, 1] - joints[j, 1], centres[j, 2] - joints[j, 2]
            for i in range(size):
                a, b, c = angular[j, 0, i], angular[j, 1, i], angular[j, 2, i]
                com[0, i] += share * (linear[j, 0, i] + b * z - c * y)
                com[1, i] += share * (linear[j, 1, i] + c * x - a * z)
                com[2, i] += share * (linear[j, 2, i] + a * y - b * x)
    # With the centre of mass as root place, no other coordinate moves it
    if mech.is_com:
        for i in range(size):
            if i < 3 or i > 5:
                for r in range(3):
                    for j in range(count):
                        linear[j, r, i] -= com[r, i]
                    com[r, i] = 0.0
    return angular, linear, com


@kernel
def compute_mechanics(mech: Mechanism, place: FloatArray, wxyz: FloatArray, coordinates: FloatArray) -> Mechanics:
    """Mechanics of a configuration: place ``(3,)`` [m], local rotations ``(J, 4)`` and coordinates ``(k,)``."""
    frames, joints, centres, com = forward_kinematics(mech, place.copy(), wxyz.copy())  # compiled for one kind of array
    # How each joint turns with each coordinate, in its own frame
    turns = mech.basis.copy()
    if mech.kind != FULL_SPACE:
        model_jacobian(mech.kind, mech.mean_wxyz, mech.basis, coordinates, turns)
        turns[0] = 0.0
    angular, linear, com_columns = world_jacobians(mech, frames, joints, centres, turns)
    # Inertia as a Gram matrix: rows of the square roots of mass and inertia times the twist of each segment
    columns, count = angular.shape[2], 0
    for j in range(mech.masses.shape[0]):
        count += mech.masses[j] > 0.0
    rows = np.empty((6 * count, columns))
    lower = np.empty((3, 3))
    n = 0
    for j in range(mech.masses.shape[0]):
        if mech.masses[j] <= 0.0:
            continue
        # sqrt(m) times the velocity of the centre, and sqrt(I) R^T times the angular velocity
        root = sqrt(mech.masses[j])
        x, y, z = centres[j, 0] - joints[j, 0], centres[j, 1] - joints[j, 1], centres[j, 2] - joints[j, 2]
        for r in range(3):
            for c in range(3):
                lower[r, c] = 0.0
                for m in range(3):
                    lower[r, c] += mech.inertia_roots[j, r, m] * frames[j, c, m]
        wx, wy, wz = angular[j]
        for i in range(columns):
            rows[n, i] = root * (linear[j, 0, i] + wy[i] * z - wz[i] * y)
            rows[n + 1, i] = root * (linear[j, 1, i] + wz[i] * x - wx[i] * z)
            rows[n + 2, i] = root * (linear[j, 2, i] + wx[i] * y - wy[i] * x)
        for r in range(3):
            p, q, s = lower[r]
            for i in range(columns):
                rows[n + 3 + r, i] = p * wx[i] + q * wy[i] + s * wz[i]
        n += 6
    # M = rows^T rows; by hand, since threads of a library would stall it
    size = rows.shape[1]
    inertia = np.zeros((size, size))
    for r in range(0, rows.shape[0], 3):
        for i in range(size):
            a, b, c = rows[r, i], rows[r + 1, i], rows[r + 2, i]
            for j in range(i + 1):
                inertia[i, j] += a * rows[r, j] + b * rows[r + 1, j] + c * rows[r + 2, j]
    for i in range(size):
        for j in range(i):
            inertia[j, i] = inertia[i, j]
    # Armature on the diagonal of the inner coordinates
    for i in range(mech.armature.shape[0]):
        inertia[6 + i, 6 + i] += mech.armature[i]
    return Mechanics(mech, frames, joints, centres, com, turns, angular, linear, com_columns, inertia)


def make_mechanics(mechanism: Mechanism, place: FloatArray, wxyz: FloatArray, coordinates: FloatArray) -> Mechanics:
    """As :func:`compute_mechanics`, for arrays of any kind."""
    return compute_mechanics(mechanism, as_kernel_array(place), as_kernel_array(wxyz), as_kernel_array(coordinates))


@kernel
def compute_momentum_matrix(here: Mechanics) -> FloatArray:
    r"""Matrix ``(6, d)`` from a velocity to the angular momentum about the mass centre and the linear one, in world.

    [Tournier2011]_ §15.2: :math:`a = \sum_i R_i I_i \omega_i + m_i (c_i - c)\times\dot c_i`.
    """
    mech, frames, joints, centres, com = here.mechanism, here.frames, here.joints, here.centres, here.com
    angular, linear = here.angular, here.linear
    size = angular.shape[2]
    out = np.zeros((6, size))
    for j in range(mech.parents.shape[0]):
        mass = mech.masses[j]
        if mass <= 0.0:
            continue
        # Inertia in world axes, arm from the joint, arm from the centre of mass
        inertia = frames[j] @ mech.inertias[j] @ np.ascontiguousarray(frames[j].T)
        x, y, z = centres[j, 0] - joints[j, 0], centres[j, 1] - joints[j, 1], centres[j, 2] - joints[j, 2]
        px, py, pz = centres[j, 0] - com[0], centres[j, 1] - com[1], centres[j, 2] - com[2]
        for i in range(size):
            a, b, c = angular[j, 0, i], angular[j, 1, i], angular[j, 2, i]
            # Linear momentum of the segment, column by column
            u = mass * (linear[j, 0, i] + b * z - c * y)
            v = mass * (linear[j, 1, i] + c * x - a * z)
            w = mass * (linear[j, 2, i] + a * y - b * x)
            # R I w + (c_j - c) x m v
            out[0, i] += inertia[0, 0] * a + inertia[0, 1] * b + inertia[0, 2] * c + py * w - pz * v
            out[1, i] += inertia[1, 0] * a + inertia[1, 1] * b + inertia[1, 2] * c + pz * u - px * w
            out[2, i] += inertia[2, 0] * a + inertia[2, 1] * b + inertia[2, 2] * c + px * v - py * u
            out[3, i] += u
            out[4, i] += v
            out[5, i] += w
    return out
