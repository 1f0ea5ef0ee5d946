r"""Tracking with a pose model as prior: what is not seen follows from what is, and from the motion before and after.

.. math:: \min_z \sum_{t,c} \rho\Big(\frac{\|y_{tc} - \Pi_c(f(z_t))\|}{s_c}\Big)
          + \sum_t \|\Lambda^{-1}\lambda_t\|^2 + \sum_t \|Q^{-1}(z_{t+1} - 2 z_t + z_{t-1})\|^2

over the root and the model's coordinates :math:`z_t = (R_t, x_t, \lambda_t)` of all frames; :math:`\Pi` is the identity
for points in space or the projection of a camera, :math:`\rho` is Huber's. [Tournier2011]_ §3.1.1 and 16 motivates the
prior and builds none. A first pass goes frame by frame, each from the constant-velocity prediction; the second solves
all frames at once, so that a point that reappears does not make the pose jump.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray, Result, kernel
from marey.lie import SO3
from marey.lie.kernels import multiply, quaternion_at, rotate, row3
from marey.models import PoseModel
from marey.models.evaluation import model_jacobian, model_rotations
from marey.motion import Markers, Motion
from marey.skeleton import Pose, Skeleton
from marey.tracking.observation import MIN_DEPTH_M, Observations, body_points, track_points

MAX_STEPS = 60  # Gauss-Newton steps of all frames; ten to twenty in practice
FRAME_STEPS = 8  # of each frame in the first pass
MIN_DECREASE = 1e-6  # [-] of the objective in one step
MIN_DAMPING, MAX_DAMPING = 1e-9, 1e9


class CarriedPoints(NamedTuple):
    """A skeleton of J joints, the K points on it, and the pose model that moves it."""

    parents: IntArray  # (J,)
    offsets: FloatArray  # (J, 3) [m]
    joints: IntArray  # (K,) carrying joint
    points: FloatArray  # (K, 3) [m] in its frame
    kind: int
    mean_wxyz: FloatArray  # (J, 4)
    basis: FloatArray  # (J, 3, k)


class SeenPoints(NamedTuple):
    """What was seen of them, in an image or in space."""

    targets: FloatArray  # (F, K, 3) [px] and zero, or [m] in world
    weights: FloatArray  # (F, K) [1/px²] or [1/m²]; 0 where not seen
    is_image: bool
    axes: FloatArray  # (3, 3) right, up and forward of the picture in world
    position: FloatArray  # (3,) [m] of the camera
    focal_px: float
    centre_px: FloatArray  # (2,)


class NormalBlocks(NamedTuple):
    """Normal equations of each frame, written by :func:`linearise_points`."""

    H: FloatArray  # (F, n, n)
    g: FloatArray  # (F, n)
    costs: FloatArray  # (F,)


@kernel
def linearise_points(
    body: CarriedPoints,
    seen: SeenPoints,
    huber: float,
    roots: FloatArray,
    turns: FloatArray,
    x: FloatArray,
    out: NormalBlocks,
) -> None:
    r"""Write :math:`J^T W J`, :math:`J^T W e` and the cost of each frame; W holds Huber's weights.

    A point P moves with the root's place, with its turn, :math:`R_0 e_c \times (P - o_0)`, and with each coordinate,
    :math:`\sum_j R_j B_{jk} \times (P - o_j)` over the joints above it; a camera multiplies that by the derivative of
    its projection.
    """
    joints, n = body.parents.shape[0], 6 + x.shape[1]
    wxyz, columns = np.zeros((joints, 4)), np.zeros((joints, 3, x.shape[1]))
    world, positions, spins = np.zeros((joints, 4)), np.zeros((joints, 3)), np.zeros((joints, 3, x.shape[1]))
    rows, seen_rows, e = np.zeros((3, n)), np.zeros((3, n)), np.zeros(3)
    for f in range(roots.shape[0]):
        # Forward kinematics, and how joints turn with the coordinates, in world axes
        model_rotations(body.kind, body.mean_wxyz, body.basis, x[f], wxyz)
        model_jacobian(body.kind, body.mean_wxyz, body.basis, x[f], columns)
        wxyz[0] = turns[f]
        for j in range(joints):
            p = body.parents[j]
            q = quaternion_at(wxyz, j)
            if j == 0:
                positions[0] = roots[f]
            else:
                q = multiply(quaternion_at(world, p), q)
                a, b, c = rotate(quaternion_at(world, p), row3(body.offsets, j))
                positions[j, 0], positions[j, 1] = positions[p, 0] + a, positions[p, 1] + b
                positions[j, 2] = positions[p, 2] + c
            world[j, 0], world[j, 1], world[j, 2], world[j, 3] = q
            for k in range(x.shape[1]):
                spin = rotate(q, (columns[j, 0, k], columns[j, 1, k], columns[j, 2, k]))
                spins[j, 0, k], spins[j, 1, k], spins[j, 2, k] = spin
        for i in range(body.joints.shape[0]):
            weight = seen.weights[f, i]
            if weight == 0.0:
                continue
            j = body.joints[i]
            a, b, c = rotate(quaternion_at(world, j), row3(body.points, i))
            px, py, pz = positions[j, 0] + a, positions[j, 1] + b, positions[j, 2] + c
            rows[:] = 0.0
            for r in range(3):
                rows[r, r] = 1.0
            while j >= 0:
                u, v, w = px - positions[j, 0], py - positions[j, 1], pz - positions[j, 2]
                for k in range(3 if j == 0 else x.shape[1]):
                    column = 3 + k if j == 0 else 6 + k
                    a, b, c = spins[j, 0, k], spins[j, 1, k], spins[j, 2, k]
                    if j == 0:
                        axis = (1.0 if k == 0 else 0.0, 1.0 if k == 1 else 0.0, 1.0 if k == 2 else 0.0)
                        a, b, c = rotate(quaternion_at(world, 0), axis)
                    rows[0, column] += b * w - c * v
                    rows[1, column] += c * u - a * w
                    rows[2, column] += a * v - b * u
                j = body.parents[j]
            # What is missing, in space or on the picture
            count = 3
            e[0], e[1], e[2] = seen.targets[f, i, 0] - px, seen.targets[f, i, 1] - py, seen.targets[f, i, 2] - pz
            if seen.is_image:
                count = 2
                x0, y0, z0 = px - seen.position[0], py - seen.position[1], pz - seen.position[2]
                right = seen.axes[0, 0] * x0 + seen.axes[0, 1] * y0 + seen.axes[0, 2] * z0
                up = seen.axes[1, 0] * x0 + seen.axes[1, 1] * y0 + seen.axes[1, 2] * z0
                depth = seen.axes[2, 0] * x0 + seen.axes[2, 1] * y0 + seen.axes[2, 2] * z0
                depth = max(depth, MIN_DEPTH_M)
                scale = seen.focal_px / depth
                e[0] = seen.targets[f, i, 0] - (seen.centre_px[0] + scale * right)
                e[1] = seen.targets[f, i, 1] - (seen.centre_px[1] - scale * up)
                seen_rows[:] = 0.0
                for r in range(3):
                    across = scale * (seen.axes[0, r] - right / depth * seen.axes[2, r])
                    down = scale * (up / depth * seen.axes[2, r] - seen.axes[1, r])
                    for m in range(n):
                        seen_rows[0, m] += across * rows[r, m]
                        seen_rows[1, m] += down * rows[r, m]
                rows[:] = seen_rows
            # Huber: the cost of a large residual grows linearly, its weight falls
            square = 0.0
            for r in range(count):
                square += weight * e[r] * e[r]
            size = np.sqrt(square)
            out.costs[f] += square if size <= huber else huber * (2.0 * size - huber)
            weight *= min(1.0, huber / max(size, 1e-12))
            for r in range(count):
                for m in range(n):
                    value = weight * rows[r, m]
                    out.g[f, m] += value * e[r]
                    for other in range(n):
                        out.H[f, m, other] += value * rows[r, other]


@dataclass(frozen=True, slots=True, eq=False)
class PriorTracker:
    """Settings of a tracker whose prior is a pose model."""

    model: PoseModel
    noise_px: float = 3.0  # [px] standard deviation of image points
    noise_m: float = 0.005  # [m] of points in space: a marker on skin
    huber: float = 2.0  # [-] standard deviations beyond which the cost grows linearly: a wrong detection pulls no more
    spring: float = 2.0  # [-] weight of the prior; 1 is the Gaussian that the model's samples have
    max_sigma: float = 3.0  # [-] largest standard deviation of a coordinate
    coordinate_acceleration: float = 150.0  # [1/s²] standard deviations of a coordinate: a mode at 2 Hz has 158
    root_acceleration: float = 5.0  # [m/s²] of the root: half of gravity, as in a walk
    root_turn_acceleration: float = 15.0  # [rad/s²] of the root's turn

    def run(self, seen: Observations | Markers, start: Pose) -> PriorTrack:
        """Find the motion that explains the points, the prior counted in.

        Args:
            seen: image points, or points in space whose names are those of body points (see ``body_points``).
            start: where the first frame begins, of a body with the joints of the model.

        Raises:
            UnknownNameError: the body has no such point.
            InputError: the start is a pose of another skeleton.
        """
        problem = _PriorProblem.compile(self, seen, start)
        # Go through the clip, each frame from the constant-velocity prediction, which also pulls it
        model = problem.tracker.model
        clip = Motion(start.skeleton, problem.rate_hz, start.root_position[None], SO3(start.rotations.wxyz[None]))
        most = problem.tracker.max_sigma * problem.deviations
        state = _PriorState(
            start.root_position[None], SO3(start.rotations.wxyz[None, 0]), np.clip(model.encode(clip), -most, most)
        )
        states = list[_PriorState]()
        for f in range(problem.num_frames):
            guess = state
            if len(states) > 1:
                before, last = states[-2:]
                turn = (before.turns.inverse() @ last.turns).log()
                guess = _PriorState(
                    2.0 * last.roots - before.roots, last.turns @ SO3.exp(turn), 2.0 * last.x - before.x
                )
                guess = guess.step(problem, np.zeros((1, 6 + guess.x.shape[1])))
            state = _solve(problem, guess, np.array([f]), FRAME_STEPS, pull=len(states) > 1)
            states.append(state)
        state = _PriorState(
            np.concatenate([s.roots for s in states]),
            SO3.concatenate([s.turns for s in states]),
            np.concatenate([s.x for s in states]),
        )
        state = _solve(problem, state, np.arange(problem.num_frames), MAX_STEPS)
        motion = state.motion(problem)
        places = track_points(motion, seen.names)
        if isinstance(seen, Observations):
            away, scale = seen.pixels - seen.camera.project(places), self.noise_px
        else:
            away, scale = seen.positions - places, self.noise_m
        is_seen = problem.seen_points.weights > 0.0
        errors = np.where(is_seen, np.linalg.norm(away, axis=-1), 0.0)
        weights = np.minimum(1.0, self.huber * scale / np.maximum(errors, 1e-12)) * is_seen
        return PriorTrack(motion, state.x, errors, weights, np.logical_not(is_seen.any(axis=1)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PriorTrack(Result):
    """A tracked clip, and how far it is from what was seen."""

    motion: Motion
    coordinates: FloatArray  # (F, k) of the model
    errors: FloatArray  # (F, K) [px] or [m] of each point; 0 where it was not seen
    weights: FloatArray  # (F, K) Huber's, 0 where it was not seen; far below 1 for a wrong detection
    is_predicted: BoolArray  # (F,) frames in which nothing was seen

    def __repr__(self) -> str:
        frames, predicted = len(self.errors), int(self.is_predicted.sum())
        return f"PriorTrack({frames} frames, {predicted} without any point)"


@dataclass(frozen=True, slots=True, eq=False)
class _PriorState:
    """Root and coordinates of all frames."""

    roots: FloatArray  # (F, 3) [m]
    turns: SO3  # batch (F,)
    x: FloatArray  # (F, k)

    def motion(self, problem: _PriorProblem) -> Motion:
        rotations = self.rotations(problem.tracker.model)
        return Motion(problem.skeleton, problem.rate_hz, self.roots, rotations, name="tracked")

    def rotations(self, model: PoseModel) -> SO3:
        wxyz = np.array(model.rotations(self.x).wxyz)
        wxyz[:, 0] = self.turns.wxyz
        return SO3(wxyz)

    def rows(self, frames: slice) -> _PriorState:
        return _PriorState(self.roots[frames], self.turns[frames], self.x[frames])

    def step(self, problem: _PriorProblem, delta: FloatArray) -> _PriorState:
        """Return the state after a step ``(F, 6 + k)``, its coordinates inside their limits."""
        most = problem.tracker.max_sigma * problem.deviations
        x = np.clip(self.x + delta[:, 6:], -most, most)
        return _PriorState(self.roots + delta[:, :3], self.turns @ SO3.exp(delta[:, 3:6]), x)


@dataclass(frozen=True, slots=True, eq=False)
class _PriorProblem:
    """What was seen, and the scales of all terms."""

    tracker: PriorTracker
    skeleton: Skeleton
    rate_hz: float
    body: CarriedPoints
    seen_points: SeenPoints
    deviations: FloatArray  # (k,)
    accelerations: FloatArray  # (6 + k,) standard deviation of a second difference

    @property
    def num_frames(self) -> int:
        return len(self.seen_points.weights)

    @classmethod
    def compile(cls, tracker: PriorTracker, seen: Observations | Markers, start: Pose) -> _PriorProblem:
        skeleton = start.skeleton
        if skeleton.names != tracker.model.skeleton.names:
            raise InputError(f"the start is a pose of {skeleton!r}, the model has other joints", "Retarget it first")
        points, arrays = body_points(skeleton, seen.names), tracker.model.arrays()
        joints, offsets = points.joints.astype(np.int64), np.array(points.offsets)
        tree = skeleton.parents.copy(), skeleton.offsets.copy()
        body = CarriedPoints(*tree, joints, offsets, arrays.kind, arrays.mean_wxyz, arrays.basis)
        if isinstance(seen, Observations):
            lens, targets = seen.camera, np.zeros((*seen.valid.shape, 3))
            targets[..., :2] = np.where(seen.valid[..., None], seen.pixels, 0.0)
            centre = np.array([0.5 * lens.size[0], 0.5 * lens.size[1]])
            weights = seen.trust / tracker.noise_px**2
            points_seen = SeenPoints(
                targets, weights, True, lens.axes(), np.array(lens.position), lens.focal_px, centre
            )
        else:
            targets, weights = np.array(seen.positions), seen.valid / tracker.noise_m**2
            points_seen = SeenPoints(targets, weights, False, np.eye(3), np.zeros(3), 1.0, np.zeros(2))
        deviations = np.maximum(tracker.model.deviations, 1e-6 * max(float(tracker.model.deviations.max()), 1e-12))
        dt2 = 1.0 / seen.rate_hz**2
        scales = [tracker.root_acceleration] * 3 + [tracker.root_turn_acceleration] * 3
        accelerations = dt2 * np.concatenate([scales, tracker.coordinate_acceleration * deviations])
        return cls(tracker, skeleton, seen.rate_hz, body, points_seen, deviations, accelerations)

    def linearise(self, state: _PriorState, frames: slice) -> tuple[FloatArray, FloatArray, float]:
        """Return J^T W J ``(F, n, n)`` and J^T W e ``(F, n)`` of the points and the prior, and their objective."""
        tracker = self.tracker
        count, n = len(state.x), 6 + state.x.shape[1]
        H, g, costs = np.zeros((count, n, n)), np.zeros((count, n)), np.zeros(count)
        linearise_points(
            self.body,
            SeenPoints(self.seen_points.targets[frames], self.seen_points.weights[frames], *self.seen_points[2:]),
            tracker.huber,
            np.ascontiguousarray(state.roots),
            np.ascontiguousarray(state.turns.wxyz),
            np.ascontiguousarray(state.x),
            NormalBlocks(H, g, costs),
        )
        # The prior in standard deviations
        stiffness = tracker.spring / self.deviations**2
        H[:, np.arange(6, n), np.arange(6, n)] += stiffness
        g[:, 6:] -= stiffness * state.x
        return H, g, float(costs.sum()) + float((stiffness * state.x**2).sum())

    def accelerate(self, state: _PriorState) -> FloatArray:
        """Second differences ``(F - 2, n)`` of root and coordinates, in standard deviations."""
        if len(state.x) < 3:
            return np.zeros((0, len(self.accelerations)))
        turns = (state.turns[:-1].inverse() @ state.turns[1:]).log()
        second = np.concatenate(
            [np.diff(state.roots, 2, axis=0), np.diff(turns, axis=0), np.diff(state.x, 2, axis=0)], 1
        )
        return second / self.accelerations


def _solve(
    problem: _PriorProblem, state: _PriorState, frames: np.ndarray, max_steps: int, *, pull: bool = False
) -> _PriorState:
    """Levenberg-Marquardt on some frames at once; one frame may be pulled to where it begins."""
    rows, guess, damping = slice(int(frames[0]), int(frames[-1]) + 1), state, 1e-3

    def objective(tried: _PriorState) -> tuple[FloatArray, FloatArray, float]:
        H, g, cost = problem.linearise(tried, rows)
        cost += float((problem.accelerate(tried) ** 2).sum())
        if pull:
            turn = (guess.turns.inverse() @ tried.turns).log()
            away = np.concatenate([tried.roots - guess.roots, turn, tried.x - guess.x], axis=1)
            stiffness = 1.0 / problem.accelerations**2
            H[:, np.arange(H.shape[1]), np.arange(H.shape[1])] += stiffness
            g -= stiffness * away
            cost += float((stiffness * away**2).sum())
        return H, g, cost

    blocks, slopes, cost = objective(state)
    for _ in range(max_steps):
        delta = _solve_banded(problem, blocks, slopes, problem.accelerate(state), damping)
        tried = state.step(problem, delta)
        new_blocks, new_slopes, new_cost = objective(tried)
        if not new_cost < cost:
            damping *= 8.0
            if damping > MAX_DAMPING:
                break
            continue
        is_settled = cost - new_cost < MIN_DECREASE * cost
        state, blocks, slopes, cost = tried, new_blocks, new_slopes, new_cost
        damping = max(0.3 * damping, MIN_DAMPING)
        if is_settled:
            break
    return state


def _solve_banded(
    problem: _PriorProblem, H: FloatArray, g: FloatArray, second: FloatArray, damping: float
) -> FloatArray:
    """Step ``(F, n)`` of the normal equations: blocks of the frames, and bands of the second differences."""
    count, n = g.shape
    width = 2 * n if len(second) else n - 1
    bands = np.zeros((width + 1, count, n))
    # The upper triangle of the blocks, scaled by Marquardt's damping
    for offset in range(n):
        bands[width - offset, :, offset:] += np.diagonal(H, offset, 1, 2)
    bands[width] *= 1.0 + damping
    # Second differences couple a coordinate with itself, one and two frames on
    rhs = g.copy()
    if len(second):
        scale = 1.0 / problem.accelerations
        for shift, factor in enumerate((1.0, -2.0, 1.0)):
            rows = slice(shift, shift + len(second))
            rhs[rows] -= factor * scale * second
            bands[width, rows] += factor**2 * scale**2
            for other, next_factor in enumerate((1.0, -2.0, 1.0)[shift + 1 :], shift + 1):
                ahead = slice(other, other + len(second))
                bands[width - n * (other - shift), ahead] += factor * next_factor * scale**2
    step = rhs.ravel()
    solve_banded_cholesky(bands.reshape(width + 1, -1), step)
    return step.reshape(count, n)


@kernel
def solve_banded_cholesky(bands: FloatArray, b: FloatArray) -> None:
    """Overwrite ``b`` ``(N,)`` by the answer of a positive definite system whose entry (i, j) is bands[w + i - j, j].

    LAPACK's banded solver starts threads for matrices of this size and waits for them.
    """
    width, size = bands.shape[0] - 1, bands.shape[1]
    # A = U^T U, row by row, in place
    for i in range(size):
        pivot = 1.0 / np.sqrt(bands[width, i])
        last = min(size, i + width + 1)
        for j in range(i, last):
            bands[width + i - j, j] *= pivot
        for r in range(i + 1, last):
            f = bands[width + i - r, r]
            if f != 0.0:
                for c in range(r, last):
                    bands[width + r - c, c] -= f * bands[width + i - c, c]
    # U^T y = b, then U x = y
    for i in range(size):
        b[i] /= bands[width, i]
        for j in range(i + 1, min(size, i + width + 1)):
            b[j] -= bands[width + i - j, j] * b[i]
    for i in range(size - 1, -1, -1):
        for j in range(i + 1, min(size, i + width + 1)):
            b[i] -= bands[width + i - j, j] * b[j]
        b[i] /= bands[width, i]
