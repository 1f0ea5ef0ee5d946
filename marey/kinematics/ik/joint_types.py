"""Joint types by name: hinge, universal, ball and prismatic joints with any axis, and a body made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marey.base import BoolArray, FloatArray, InputError, frozen
from marey.kinematics.ik.problem import Guess, IKProblem, SolverInputs, SolverOutcome, joint_index
from marey.kinematics.ik.state import (
    COM,
    LOOK_AT,
    ORIENTATION,
    OUT_OF_ITERATIONS,
    REACHED,
    STATIONARY,
    CoordinateBox,
)
from marey.kinematics.limits.contract import JointLimits, freeze_with_infinities
from marey.lie import SO3, right_jacobian
from marey.skeleton import Skeleton, joint_frames

MAX_ITERATIONS: Final = 200
MIN_CHANGE: Final = 1e-9  # [rad] or [m], the largest component of a step that still counts
PROJECTION_STEPS: Final = 20  # Gauss-Newton steps that find the angles of a universal joint nearest to a rotation


@dataclass(frozen=True, slots=True, eq=False)
class HingeJoint:
    r"""A revolute joint: :math:`R = \exp(\theta u)` about one axis of the parent's frame ([Engell2012]_ eq. 48)."""

    axis: ArrayLike  # (3,) any length but zero
    low: float = field(default=-np.inf, kw_only=True)  # [rad]
    high: float = field(default=np.inf, kw_only=True)  # [rad]


@dataclass(frozen=True, slots=True, eq=False)
class UniversalJoint:
    r"""Two hinges in one place: :math:`R = \exp(\theta_1 u_1) \exp(\theta_2 u_2)`."""

    axes: ArrayLike  # (2, 3)
    low: ArrayLike = field(default=(-np.inf, -np.inf), kw_only=True)  # (2,) [rad]
    high: ArrayLike = field(default=(np.inf, np.inf), kw_only=True)  # (2,) [rad]


@dataclass(frozen=True, slots=True, eq=False)
class BallJoint:
    r"""Any rotation, :math:`R = R_0 \exp(v)` from that of the start; what a joint is unless it is said otherwise."""


@dataclass(frozen=True, slots=True, eq=False)
class PrismaticJoint:
    r"""A joint that slides along axes of the parent's frame and does not turn: :math:`o + \sum_k s_k u_k`."""

    axes: ArrayLike  # (3,) or (A, 3)
    low: ArrayLike = field(default=-np.inf, kw_only=True)  # (A,) [m]
    high: ArrayLike = field(default=np.inf, kw_only=True)  # (A,) [m]


JointType = HingeJoint | UniversalJoint | BallJoint | PrismaticJoint
TURN, SLIDE, BALL = 0, 1, 2


class Freedom(NamedTuple):
    """One coordinate of a joint; a ball has three."""

    joint: int
    kind: int  # TURN, SLIDE or BALL
    axis: FloatArray  # (3,) unit vector: in the parent's frame, of a ball in its own
    low: float  # [rad] or [m]
    high: float  # [rad] or [m]


class TypedPose(NamedTuple):
    """A pose of a typed body."""

    root: FloatArray  # (3,) [m]
    wxyz: FloatArray  # (J, 4)
    offsets: FloatArray  # (J, 3) [m] with what prismatic joints add


class TypedBody:
    """Coordinates z: the root's place, then the freedoms of each joint. Joints that are not named are balls."""

    def __init__(
        self,
        skeleton: Skeleton,
        joints: Mapping[str | int, JointType],
        root: FloatArray,
        wxyz: FloatArray,
        mobility: FloatArray,
        box: CoordinateBox | None = None,
    ) -> None:
        """Begin at a pose; joints of ``box`` have its bounds on their rotation vectors."""
        types = {joint_index(skeleton, name): kind for name, kind in joints.items()}
        self.skeleton, self.root, self.reference = skeleton, root.copy(), wxyz.copy()
        self.freedoms: list[Freedom] = []
        start: list[float] = []
        for j in range(skeleton.num_joints):
            kind = types.get(j, BallJoint())
            # Coordinates of the joint
            called = skeleton.names[j]
            if isinstance(kind, BallJoint):
                own = [Freedom(j, BALL, axis, -np.inf, np.inf) for axis in np.eye(3)]
            else:
                given = kind.axis if isinstance(kind, HingeJoint) else kind.axes
                axes = np.atleast_2d(frozen(given, name="axis"))
                count = 2 if isinstance(kind, UniversalJoint) else 1 if isinstance(kind, HingeJoint) else len(axes)
                lengths = np.linalg.norm(axes, axis=-1)
                if axes.shape != (count, 3) or lengths.min() < 1e-12:
                    raise InputError(
                        f"joint '{called}' has axes {axes.tolist()}", f"Give {count} of three numbers, not all zero"
                    )
                low, high = (
                    freeze_with_infinities(
                        np.broadcast_to(np.asarray(edge, dtype=np.float64), (count,)), (count,), "bound"
                    )
                    for edge in (kind.low, kind.high)
                )
                if (low > high).any():
                    raise InputError(f"a lower limit of joint '{called}' is above the upper one", "Exchange them")
                way = SLIDE if isinstance(kind, PrismaticJoint) else TURN
                rows = zip(axes / lengths[:, None], low.tolist(), high.tolist(), strict=True)
                own = [Freedom(j, way, axis, a, b) for axis, a, b in rows]
            if isinstance(kind, HingeJoint | UniversalJoint):
                # Angles of one or two hinges whose product is nearest to the rotation, by Gauss-Newton from none
                axes = [f.axis for f in own]
                rotation = SO3(wxyz[j])
                angles = np.zeros(len(axes))
                for _ in range(PROJECTION_STEPS):
                    turns = [SO3.exp(angle * axis) for angle, axis in zip(angles, axes, strict=True)]
                    made = turns[0] if len(turns) == 1 else turns[0] @ turns[1]
                    # Columns in the frame of the joint
                    columns = [axes[-1]] if len(axes) == 1 else [turns[1].inverse() @ axes[0], axes[1]]
                    error = (made.inverse() @ rotation).log()
                    J = np.linalg.inv(right_jacobian(error)) @ np.stack(columns, axis=1)
                    angles = angles + np.linalg.lstsq(J, error, rcond=None)[0]
                start += np.clip(angles, [f.low for f in own], [f.high for f in own]).tolist()
                self.reference[j] = (1.0, 0.0, 0.0, 0.0)
            elif mobility[j] == 0.0 and isinstance(kind, BallJoint):
                own = []
            elif box is not None and box.boxed[j] and not box.is_swing[j] and isinstance(kind, BallJoint):
                own = [f._replace(low=float(box.low[j, k]), high=float(box.high[j, k])) for k, f in enumerate(own)]
                start += np.clip(SO3(wxyz[j]).log(), box.low[j], box.high[j]).tolist()
                self.reference[j] = (1.0, 0.0, 0.0, 0.0)
            else:
                start += [float(np.clip(0.0, f.low, f.high)) for f in own]
            self.freedoms += own
        self.can_shift = bool(mobility[-1] > 0.0)
        self.is_frozen = np.array([mobility[f.joint] == 0.0 for f in self.freedoms], dtype=np.bool_)
        self.start = np.concatenate([root, start])
        edge = 0.0 if not self.can_shift else np.inf
        self.low = np.concatenate([root - edge, [f.low for f in self.freedoms]])
        self.high = np.concatenate([root + edge, [f.high for f in self.freedoms]])
        # Bounds of frozen joints meet
        self.low[3:][self.is_frozen] = self.high[3:][self.is_frozen] = self.start[3:][self.is_frozen]
        self.is_below = np.eye(skeleton.num_joints, dtype=np.bool_)  # (J, J) joint i is joint j or below it
        for i in range(1, skeleton.num_joints):
            self.is_below[i] |= self.is_below[int(skeleton.parents[i])]

    def pose(self, z: FloatArray) -> TypedPose:
        """Root, rotations and offsets of coordinates ``(3 + n,)``."""
        wxyz, offsets = self.reference.copy(), self.skeleton.offsets.copy()
        balls: dict[int, FloatArray] = {}
        for value, (joint, kind, axis, _, _) in zip(z[3:], self.freedoms, strict=True):
            if kind == SLIDE:
                offsets[joint] += value * axis
            elif kind == BALL:
                balls[joint] = balls.get(joint, np.zeros(3)) + value * axis
            else:
                wxyz[joint] = (SO3(wxyz[joint]) @ SO3.exp(value * axis)).wxyz
        for joint, vector in balls.items():
            wxyz[joint] = (SO3(wxyz[joint]) @ SO3.exp(vector)).wxyz
        root = z[:3] + offsets[0] - self.skeleton.offsets[0]
        return TypedPose(root, wxyz, offsets)

    def linearise(
        self, problem: IKProblem, targets: FloatArray, active: BoolArray, z: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What is missing ``(B, 3)``, the same ``(3 B,)`` and the Jacobian ``(3 B, 3 + n)`` with weights taken in.

        Columns are those of [Engell2012]_ eq. 51-62: a turn moves a point by axis times lever, a slide by its axis.
        """
        pose, blocks = self.pose(z), problem.layout.blocks
        positions, frames = joint_frames(self.skeleton, pose.root[None], pose.wxyz[None], pose.offsets[None])
        x, R = positions[0], frames[0].matrix()
        # World axes of the freedoms; those of a ball are the columns of its right Jacobian
        axes, before, joint = np.zeros((len(self.freedoms), 3)), np.eye(3), -1
        vectors: dict[int, FloatArray] = {}
        for value, f in zip(z[3:], self.freedoms, strict=True):
            if f.kind == BALL:
                vectors[f.joint] = vectors.get(f.joint, np.zeros(3)) + value * f.axis
        for n, (value, f) in enumerate(zip(z[3:], self.freedoms, strict=True)):
            parent = int(self.skeleton.parents[f.joint])
            R_parent = np.eye(3) if parent < 0 else R[parent]
            before = before if f.joint == joint else np.eye(3)
            joint = f.joint
            if f.kind == BALL:
                axes[n] = R[f.joint] @ right_jacobian(vectors[f.joint]) @ f.axis
            else:
                axes[n] = R_parent @ before @ f.axis
                if f.kind == TURN:
                    before = before @ SO3.exp(value * f.axis).matrix()
        mass = problem.layout.mass
        points = x[mass.joints] + np.einsum("prc,pc->pr", R[mass.joints], mass.points)
        e, J = np.zeros((len(targets), 3)), np.zeros((len(targets), 3, len(z)))
        for b in np.flatnonzero(active).tolist():
            j, kind = int(blocks.joints[b]), int(blocks.kinds[b])
            place = x[j] + R[j] @ blocks.points[b]
            # r' = A w + C v of the frame that carries the block, A the spin and C the shift
            spin, shift = np.zeros((3, 3)), np.eye(3)
            if kind == COM:
                J[b, :, :3] = np.eye(3)
                e[b] = targets[b, :3] - mass.weights @ points
                for n, f in enumerate(self.freedoms):
                    own = self.is_below[mass.joints, f.joint]
                    if f.kind == SLIDE:
                        J[b, :, 3 + n] = float(mass.weights[own].sum()) * axes[n]
                    else:
                        J[b, :, 3 + n] = mass.weights[own] @ np.cross(axes[n], points[own] - x[f.joint])
                continue
            if kind == ORIENTATION:
                e[b] = (SO3(targets[b]) @ frames[0, j].inverse()).log()
                spin, shift = np.linalg.inv(right_jacobian(e[b])), np.zeros((3, 3))
            elif kind == LOOK_AT:
                away, aim = targets[b, :3] - place, R[j] @ blocks.aims[b]
                far = max(float(np.linalg.norm(away)), 1e-9)
                u = away / far
                across = np.cross(aim, u)
                sine = float(np.linalg.norm(across))
                e[b] = across * (np.arctan2(sine, float(aim @ u)) / max(sine, 1e-12))
                spin = np.eye(3) - np.outer(u, u)
                shift = np.array([[0.0, -u[2], u[1]], [u[2], 0.0, -u[0]], [-u[1], u[0], 0.0]]) / far
            else:
                e[b] = targets[b, :3] - place
            J[b, :, :3] = shift
            for n, f in enumerate(self.freedoms):
                if self.is_below[j, f.joint]:
                    if f.kind == SLIDE:
                        J[b, :, 3 + n] = shift @ axes[n]
                    else:
                        J[b, :, 3 + n] = spin @ axes[n] + shift @ np.cross(axes[n], place - x[f.joint])
            e[b] *= blocks.axes[b]
        U = np.swapaxes(np.linalg.cholesky(blocks.weights), -1, -2)
        return e, (U @ e[..., None]).reshape(-1), (U @ J).reshape(-1, len(z))

    def project(self, limits: JointLimits | None, z: FloatArray) -> FloatArray:
        """Coordinates inside their bounds, and balls inside the limits."""
        z = np.clip(z, self.low, self.high)
        if limits is None:
            return z
        wxyz = self.pose(z).wxyz
        inside = (SO3(self.reference).inverse() @ limits.project_rotations(SO3(wxyz[None]))[0]).log()
        for n, f in enumerate(self.freedoms):
            if f.kind == BALL and not self.is_frozen[n]:
                z[3 + n] = inside[f.joint] @ f.axis
        return z


def solve_typed(run: SolverInputs, guess: Guess, body: TypedBody, limits: JointLimits | None) -> SolverOutcome:
    """Levenberg-Marquardt on the coordinates of a typed body, bounds by an active set; ``guess`` becomes the answer.

    Offsets of prismatic joints are those of ``body.pose`` of the coordinates that end up in ``guess.x``.
    """
    problem, tolerances = run.problem, run.problem.layout.blocks.tolerances
    z = body.project(limits, body.start)
    e, r, columns = body.linearise(problem, run.targets, run.active, z)
    cost, damping, stop, count, tries, slope = float(r @ r), 1e-2, OUT_OF_ITERATIONS, -1, 1, 0.0
    while count < min(run.max_iterations, MAX_ITERATIONS):
        count += 1
        if (np.sqrt((e**2).sum(axis=1)) <= tolerances).all():
            stop = REACHED
            break
        # Coordinates on a bound whose objective falls only beyond it are held
        g = -columns.T @ r
        free = (body.low < body.high) & ~((z <= body.low) & (g > 0.0)) & ~((z >= body.high) & (g < 0.0))
        # A pose pressed on its bounds has no slope left, which is known and not nothing
        slope = 2.0 * float(np.abs(g[free]).max(initial=1e-300))
        if slope < 1e-9 * (1.0 + cost):
            stop = STATIONARY
            break
        H, step = columns[:, free].T @ columns[:, free], np.zeros(len(z))
        while True:
            step[free] = np.linalg.solve(H + damping * max(cost, 1e-6) * np.eye(len(H)), -g[free])
            new = body.project(limits, z + step)
            e_new, r_new, columns_new = body.linearise(problem, run.targets, run.active, new)
            tries += 1
            change = float(np.abs(new - z).max())
            if float(r_new @ r_new) < cost or change < MIN_CHANGE:
                break
            damping *= 8.0
        if not float(r_new @ r_new) < cost:
            stop = STATIONARY
            break
        z, e, r, columns, cost, damping = new, e_new, r_new, columns_new, float(r_new @ r_new), max(0.2 * damping, 1e-9)
    pose = body.pose(z)
    guess.root[:], guess.wxyz[:], guess.x = pose.root, pose.wxyz, z
    run.errors[:] = e
    return SolverOutcome(stop, count, tries, cost, slope)
