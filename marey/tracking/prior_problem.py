"""The objective of tracking with a pose model: its normal equations, and Levenberg-Marquardt over all frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from marey.base import FloatArray, InputError, IntArray, kernel
from marey.lie import SO3
from marey.lie.kernels import multiply, quaternion_at, rotate, row3
from marey.models import PoseModel
from marey.models.projection import model_jacobian, model_rotations
from marey.motion import Markers
from marey.skeleton import ContactPoints, Skeleton, contact_points, joint_frames
from marey.tracking.observation import MIN_DEPTH_M, SEGMENTS, Observations, body_points, check_views, stretch_body

if TYPE_CHECKING:
    from marey.tracking.prior import PriorTracker

MAX_STEPS = 60  # Gauss-Newton steps of all frames; ten to twenty in practice
FRAME_STEPS = 8  # of each frame in the first pass
MIN_DECREASE = 1e-6  # [-] of the objective in one step
MIN_DAMPING, MAX_DAMPING = 1e-9, 1e9
SHAPE_STEP = 1e-4  # [-] of differences in the logarithm of a length; [m] in the thickness of soles
MAX_SHAPE_STEP = 0.1  # [-] of it in one step
MIN_SHAPE_STIFFNESS = 0.3  # [-] of the prior's
MIN_BODY_DECREASE = 1e-4  # [-] of the objective in one step, where the body is sought too
IN_SPACE, ON_FLOOR = -1, -2  # points that no camera sees: measured in space, or soles whose height alone counts
SOLES = ("heel", "toe")
FLOOR_ROBUST_M = 0.06  # [m] a sole much higher than this is in the air and is pulled no more


class CarriedPoints(NamedTuple):
    """A skeleton of J joints, the K points on it, and the pose model that moves it."""

    parents: IntArray  # (J,)
    offsets: FloatArray  # (J, 3) [m]
    joints: IntArray  # (K,) carrying joint
    points: FloatArray  # (K, 3) [m] in its frame
    kind: int
    mean_wxyz: FloatArray  # (J, 4)
    basis: FloatArray  # (J, 3, k)


def carry_points(model: PoseModel, skeleton: Skeleton, names: Sequence[Sequence[str]]) -> CarriedPoints:
    """Look up the points of each camera on a body."""
    arrays, points = model.arrays(), [body_points(skeleton, own) for own in names]
    joints, offsets = np.concatenate([p.joints for p in points]), np.concatenate([p.offsets for p in points])
    tree = skeleton.parents.copy(), skeleton.offsets.copy(), joints.astype(np.int64), np.array(offsets)
    return CarriedPoints(*tree, arrays.kind, arrays.mean_wxyz, arrays.basis)


class SeenPoints(NamedTuple):
    """What was seen of them, in the pictures of C cameras or in space."""

    targets: FloatArray  # (F, K, 3) [px] and zero, or [m] in world
    weights: FloatArray  # (F, K) [1/px²] or [1/m²]; 0 where not seen
    cameras: IntArray  # (K,) camera that sees the point; IN_SPACE or ON_FLOOR
    axes: FloatArray  # (C, 3, 3) right, up and forward of each picture in world
    positions: FloatArray  # (C, 3) [m]
    focals_px: FloatArray  # (C,)
    centres_px: FloatArray  # (C, 2)


def pack_lenses(views: Sequence[Observations]) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Axes, positions, focal lengths and picture centres of cameras, as :class:`SeenPoints` holds them."""
    cameras = [view.camera for view in views]
    focals = np.array([camera.focal_px for camera in cameras], dtype=np.float64)
    centres = 0.5 * np.array([camera.size for camera in cameras], dtype=np.float64)
    return np.array([c.axes() for c in cameras]), np.array([c.position for c in cameras]), focals, centres


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
            lens = seen.cameras[i]
            if lens >= 0:
                count = 2
                x0, y0, z0 = px - seen.positions[lens, 0], py - seen.positions[lens, 1], pz - seen.positions[lens, 2]
                axes = seen.axes[lens]
                right = axes[0, 0] * x0 + axes[0, 1] * y0 + axes[0, 2] * z0
                up = axes[1, 0] * x0 + axes[1, 1] * y0 + axes[1, 2] * z0
                depth = max(axes[2, 0] * x0 + axes[2, 1] * y0 + axes[2, 2] * z0, MIN_DEPTH_M)
                scale = seen.focals_px[lens] / depth
                e[0] = seen.targets[f, i, 0] - (seen.centres_px[lens, 0] + scale * right)
                e[1] = seen.targets[f, i, 1] - (seen.centres_px[lens, 1] - scale * up)
                seen_rows[:] = 0.0
                for r in range(3):
                    across = scale * (axes[0, r] - right / depth * axes[2, r])
                    down = scale * (up / depth * axes[2, r] - axes[1, r])
                    for m in range(n):
                        seen_rows[0, m] += across * rows[r, m]
                        seen_rows[1, m] += down * rows[r, m]
                rows[:] = seen_rows
            if lens == ON_FLOOR:
                # Below the floor the cost is a square; above it is Geman and McClure's, h^2 / (1 + h^2/s^2)
                share = 1.0 if e[1] > 0.0 else 1.0 / (1.0 + (e[1] / FLOOR_ROBUST_M) ** 2)
                out.costs[f] += weight * share * e[1] ** 2
                weight *= share * share
                for m in range(n):
                    out.g[f, m] += weight * rows[1, m] * e[1]
                    for other in range(n):
                        out.H[f, m, other] += weight * rows[1, m] * rows[1, other]
                continue
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
class PriorState:
    """Root and coordinates of all frames."""

    roots: FloatArray  # (F, 3) [m]
    turns: SO3  # batch (F,)
    x: FloatArray  # (F, k)

    @classmethod
    def join(cls, states: Sequence[PriorState]) -> PriorState:
        """States one after the other."""
        turns = SO3.concatenate([state.turns for state in states])
        return cls(np.concatenate([s.roots for s in states]), turns, np.concatenate([s.x for s in states]))

    def __getitem__(self, frames: slice | IntArray) -> PriorState:
        return PriorState(self.roots[frames], self.turns[frames], self.x[frames])

    def rotations(self, model: PoseModel) -> SO3:
        """Local rotations, batch ``(F, J)``."""
        wxyz = np.array(model.rotations(self.x).wxyz)
        wxyz[:, 0] = self.turns.wxyz
        return SO3(wxyz)

    def step(self, problem: PriorProblem, delta: FloatArray) -> PriorState:
        """Return the state after a step ``(F, 6 + k)``, its coordinates inside their limits."""
        most = problem.tracker.max_sigma * problem.deviations
        x = np.clip(self.x + delta[:, 6:], -most, most)
        return PriorState(self.roots + delta[:, :3], self.turns @ SO3.exp(delta[:, 3:6]), x)


@dataclass(frozen=True, slots=True, eq=False)
class PriorProblem:
    """What was seen, and the scales of all terms."""

    tracker: PriorTracker
    views: tuple[Observations, ...]  # none for points in space
    skeleton: Skeleton
    rate_hz: float
    names: tuple[tuple[str, ...], ...]  # of the points of each camera; soles follow
    body: CarriedPoints
    seen_points: SeenPoints
    num_seen: int  # points that were seen; soles follow them
    deviations: FloatArray  # (k,)
    accelerations: FloatArray  # (6 + k,) standard deviation of a second difference

    @property
    def num_frames(self) -> int:
        """Frames that were seen."""
        return len(self.seen_points.weights)

    @classmethod
    def compile(
        cls, tracker: PriorTracker, seen: Observations | Sequence[Observations] | Markers, skeleton: Skeleton
    ) -> PriorProblem:
        """Look up the points on the body, and put those of all cameras one after the other."""
        if skeleton.names != tracker.model.skeleton.names:
            raise InputError(f"the start is a pose of {skeleton!r}, the model has other joints", "Retarget it first")
        views: list[Observations] = []
        if not isinstance(seen, Markers):
            views = [seen] if isinstance(seen, Observations) else list(seen)
        if isinstance(seen, Markers):
            names, rate_hz = [tuple(seen.names)], seen.rate_hz
            targets, weights = np.array(seen.positions), seen.valid / tracker.noise_m**2
            cameras = np.full(len(seen.names), IN_SPACE)
            lenses = np.zeros((1, 3, 3)), np.zeros((1, 3)), np.ones(1), np.zeros((1, 2))
        else:
            check_views(views)
            names, rate_hz = [view.names for view in views], views[0].rate_hz
            pixels = [np.where(np.expand_dims(v.valid, 2), v.pixels, 0.0) for v in views]
            targets = np.pad(np.concatenate(pixels, axis=1), ((0, 0), (0, 0), (0, 1)))
            weights = np.concatenate([view.trust for view in views], axis=1) / tracker.noise_px**2
            cameras = np.repeat(np.arange(len(views)), [len(view.names) for view in views])
            lenses = pack_lenses(views)
        num_seen = targets.shape[1]
        if tracker.floor_m is not None:
            # Heels and toes of the frames that show anything
            names.append(tuple(name for name in contact_points(skeleton).names if name.endswith(SOLES)))
            extra = len(names[-1])
            floor = np.full((len(targets), extra, 3), tracker.floor_m)
            targets, cameras = np.concatenate([targets, floor], axis=1), np.append(cameras, [ON_FLOOR] * extra)
            shown = np.repeat((weights > 0.0).any(axis=1, keepdims=True), extra, axis=1)
            weights = np.concatenate([weights, shown / tracker.floor_noise_m**2], axis=1)
        body = carry_points(tracker.model, skeleton, names)
        deviations = np.maximum(tracker.model.deviations, 1e-6 * max(float(tracker.model.deviations.max()), 1e-12))
        scales = [tracker.root_acceleration] * 3 + [tracker.root_turn_acceleration] * 3
        accelerations = np.concatenate([scales, tracker.coordinate_acceleration * deviations]) / rate_hz**2
        points_seen = SeenPoints(targets, weights, cameras.astype(np.int64), *lenses)
        return cls(
            tracker, tuple(views), skeleton, rate_hz, tuple(names), body, points_seen, num_seen, deviations,
            accelerations,
        )  # fmt: skip

    def put_on(self, skeleton: Skeleton) -> PriorProblem:
        """Return the problem of another body."""
        return replace(self, skeleton=skeleton, body=carry_points(self.tracker.model, skeleton, self.names))

    def plant_soles(self, state: PriorState) -> PriorProblem:
        """Return the problem in which soles rest on the floor while they stand still in the pictures."""
        seen, tracker = self.seen_points, self.tracker
        is_sole = seen.cameras == ON_FLOOR
        if not is_sole.any() or self.num_frames < 2:
            return self
        places = self.place_points(state)[:, is_sole]
        rays = places - seen.positions[0]
        rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
        velocities = np.gradient(places, 1.0 / self.rate_hz, axis=0)
        # A picture does not show speeds along the line of sight
        across = velocities - (velocities * rays).sum(axis=-1, keepdims=True) * rays
        still = np.exp(-np.square(across / tracker.still_mps).sum(axis=-1))
        weights = np.array(seen.weights)
        weights[:, is_sole] *= (tracker.floor_noise_m / tracker.sole_noise_m) ** 2 * still
        return replace(self, seen_points=SeenPoints(seen.targets, weights, *seen[2:]))

    @property
    def trust(self) -> FloatArray:
        """Weights ``(F, K)`` of the points that were seen."""
        return self.seen_points.weights[:, : self.num_seen]

    def choose_frames(self, frames: slice | IntArray) -> PriorProblem:
        """Return the problem of some frames, perhaps with repeats."""
        seen = self.seen_points
        rows = np.ascontiguousarray(seen.targets[frames]), np.ascontiguousarray(seen.weights[frames])
        return replace(self, seen_points=SeenPoints(*rows, *seen[2:]))

    def linearise(self, state: PriorState) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return J^T W J ``(F, n, n)``, J^T W e ``(F, n)`` and the cost ``(F,)`` of points, prior and limits."""
        tracker = self.tracker
        count, n = len(state.x), 6 + state.x.shape[1]
        H, g, costs = np.zeros((count, n, n)), np.zeros((count, n)), np.zeros(count)
        linearise_points(
            self.body,
            self.seen_points,
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
        costs += (stiffness * state.x**2).sum(axis=1)
        # The root's own upward axis u = R^T y, off by its sides; it moves by u x delta with a turn delta
        if tracker.upright_rad is not None:
            u = state.turns.matrix()[:, 1, :]
            rows = np.zeros((count, 2, 3))
            rows[:, 0, 1], rows[:, 0, 2] = -u[:, 2], u[:, 1]
            rows[:, 1, 0], rows[:, 1, 1] = -u[:, 1], u[:, 0]
            rows, away = rows / tracker.upright_rad, u[:, [0, 2]] / tracker.upright_rad
            H[:, 3:6, 3:6] += np.swapaxes(rows, 1, 2) @ rows
            g[:, 3:6] -= np.einsum("frk,fr->fk", rows, away)
            costs += (away**2).sum(axis=1)
        # Half the squared distance to the limits has the gradient d n with a unit normal n in the tangent of the joint
        if tracker.limits is not None:
            check = tracker.limits.check(state.rotations(tracker.model))
            outside = check.violation / tracker.limit_rad
            normals = check.gradient / np.maximum(check.violation, 1e-9)[..., None] / tracker.limit_rad
            normals[:, 0] = 0.0
            rows = np.einsum("fjc,fjck->fjk", normals, tracker.model.jacobian(state.x))
            H[:, 6:, 6:] += np.swapaxes(rows, 1, 2) @ rows
            g[:, 6:] -= np.einsum("fjk,fj->fk", rows, outside)
            costs += (outside[:, 1:] ** 2).sum(axis=1)
        return H, g, costs

    def cost(self, state: PriorState) -> float:
        """Return the objective of all frames."""
        return float(self.linearise(state)[2].sum() + (self.accelerate(state) ** 2).sum())

    def accelerate(self, state: PriorState) -> FloatArray:
        """Second differences ``(F - 2, n)`` of root and coordinates, in standard deviations."""
        if len(state.x) < 3:
            return np.zeros((0, len(self.accelerations)))
        turns = (state.turns[:-1].inverse() @ state.turns[1:]).log()
        second = np.concatenate(
            [np.diff(state.roots, 2, axis=0), np.diff(turns, axis=0), np.diff(state.x, 2, axis=0)], 1
        )
        return second / self.accelerations

    def place_points(self, state: PriorState) -> FloatArray:
        """Points ``(F, K, 3)`` [m] in world."""
        points = ContactPoints(("",) * len(self.body.joints), self.body.joints, self.body.points)
        wxyz = state.rotations(self.tracker.model).wxyz
        return points.positions(*joint_frames(self.skeleton, state.roots, wxyz))

    def subtract_seen(self, state: PriorState) -> FloatArray:
        """Return how far ``(F, K, 3)`` [px] or [m] each point should move; 0 where it was not seen."""
        seen, places = self.seen_points, self.place_points(state)
        away = seen.targets - places
        for c, view in enumerate(self.views):
            away[:, seen.cameras == c, :2] = view.pixels - view.camera.project(places[:, seen.cameras == c])
            away[:, seen.cameras == c, 2] = 0.0
        away[:, seen.cameras == ON_FLOOR] *= (0.0, 1.0, 0.0)
        return np.where((seen.weights > 0.0)[..., None], away, 0.0)

    def measure_errors(self, state: PriorState) -> FloatArray:
        """Distance ``(F, K)`` [px] or [m] of each point from where it was seen; 0 where it was not."""
        return np.linalg.norm(self.subtract_seen(state)[:, : self.num_seen], axis=-1)


def solve_frames(
    problem: PriorProblem, state: PriorState, frames: slice, max_steps: int, *, pull: bool = False
) -> PriorState:
    """Levenberg-Marquardt on some frames at once; one frame may be pulled to where it begins."""
    part, guess, damping = problem.choose_frames(frames), state, 1e-3

    def objective(tried: PriorState) -> tuple[FloatArray, FloatArray, float]:
        H, g, costs = part.linearise(tried)
        cost = float(costs.sum() + (part.accelerate(tried) ** 2).sum())
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
        delta = solve_step(problem, state, blocks, slopes, damping)[..., 0]
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


def solve_step(
    problem: PriorProblem,
    state: PriorState,
    blocks: FloatArray,
    slopes: FloatArray,
    damping: float,
    others: FloatArray | None = None,
) -> FloatArray:
    """Step of the normal equations, blocks of the frames and bands of the second differences, ``(F, n, 1 + M)``.

    The answers for ``others`` ``(F, n, M)`` follow it.
    """
    second = problem.accelerate(state)
    count, n = slopes.shape
    width = 2 * n if len(second) else n - 1
    bands = np.zeros((width + 1, count, n))
    # The upper triangle of the blocks, scaled by Marquardt's damping
    for offset in range(n):
        bands[width - offset, :, offset:] += np.diagonal(blocks, offset, 1, 2)
    bands[width] *= 1.0 + damping
    # Second differences couple a coordinate with itself, one and two frames on
    rhs = np.concatenate([slopes[..., None], np.zeros((count, n, 0)) if others is None else others], axis=2)
    if len(second):
        scale = 1.0 / problem.accelerations
        for shift, factor in enumerate((1.0, -2.0, 1.0)):
            rows = slice(shift, shift + len(second))
            rhs[rows, :, 0] -= factor * scale * second
            bands[width, rows] += factor**2 * scale**2
            for other, next_factor in enumerate((1.0, -2.0, 1.0)[shift + 1 :], shift + 1):
                ahead = slice(other, other + len(second))
                bands[width - n * (other - shift), ahead] += factor * next_factor * scale**2
    solve_banded_cholesky(bands.reshape(width + 1, -1), rhs.reshape(count * n, -1))
    return rhs


def solve_body(
    problem: PriorProblem, state: PriorState, sigmas: FloatArray, max_steps: int
) -> tuple[PriorProblem, PriorState]:
    r"""Solve all frames, the lengths of the body and its soles at once, by Levenberg-Marquardt.

    The logarithms of the size of the body and of its segments over their usual share of it, and what its soles are
    thicker than usual [m], are Gaussian numbers s. Steps of the frames are eliminated from the normal equations,
    :math:`(A - C^T H^{-1} C)\,\delta s = g_s - C^T H^{-1} g`.

    Args:
        problem: of the usual body.
        state: where the frames begin.
        sigmas: standard deviations of s, ``(1 + len(SEGMENTS) + 1,)``.
        max_steps: at most.
    """
    usual, stiffness = problem.skeleton, 1.0 / sigmas**2

    def objective(shape: FloatArray, tried: PriorState) -> tuple[PriorProblem, FloatArray, FloatArray, float]:
        whole, *ratios = np.exp(shape[:-1]).tolist()
        stretched = {name: whole * r for name, r in zip(SEGMENTS, ratios, strict=True)}
        here = problem.put_on(stretch_body(usual, whole, stretched, sole_m=float(shape[-1])))
        blocks, slopes, costs = here.linearise(tried)
        cost = costs.sum() + (here.accelerate(tried) ** 2).sum() + (stiffness * shape**2).sum()
        return here, blocks, slopes, float(cost)

    shape, damping, is_new = np.zeros(len(sigmas)), 1e-3, True
    here, blocks, slopes, cost = objective(shape, state)
    own, gram = np.zeros(len(sigmas)), np.zeros((len(sigmas), len(sigmas)))
    coupling = np.zeros((*slopes.shape, len(sigmas)))
    for _ in range(max_steps):
        if is_new:
            # How residuals and slopes change with each length, by differences
            away, seen = here.subtract_seen(state), here.seen_points
            rows = np.zeros((len(sigmas), *away.shape))
            for i in range(len(sigmas)):
                there, _, moved, _ = objective(shape + SHAPE_STEP * np.eye(len(sigmas))[i], state)
                rows[i] = (away - there.subtract_seen(state)) / SHAPE_STEP
                coupling[..., i] = (slopes - moved) / SHAPE_STEP
            # Weights of the robust costs, as the kernel has them
            size = np.sqrt(seen.weights) * np.linalg.norm(away, axis=-1)
            share = np.minimum(1.0, problem.tracker.huber / np.maximum(size, 1e-12))
            above = np.minimum(away[..., 1], 0.0) / FLOOR_ROBUST_M
            weights = seen.weights * np.where(seen.cameras == ON_FLOOR, (1.0 + above**2) ** -2.0, share)
            gram = np.einsum("afki,fk,bfki->ab", rows, weights, rows) + np.diag(stiffness)
            own = np.einsum("afki,fk,fki->a", rows, weights, away) - stiffness * shape
        steps = solve_step(here, state, blocks, slopes, damping, coupling)
        reduced = gram + damping * np.diag(np.diagonal(gram)) - np.einsum("fna,fnb->ab", coupling, steps[..., 1:])
        # The differences hold what Gauss and Newton leave out: eigenvalues are kept above a part of the prior's
        values, vectors = np.linalg.eigh(0.5 * (reduced + reduced.T))
        slope = vectors.T @ (own - np.einsum("fna,fn->a", coupling, steps[..., 0]))
        turn = vectors @ (slope / np.maximum(values, MIN_SHAPE_STIFFNESS * stiffness.min()))
        turn = np.clip(turn, -MAX_SHAPE_STEP, MAX_SHAPE_STEP)
        tried = state.step(here, steps[..., 0] - steps[..., 1:] @ turn)
        there, new_blocks, new_slopes, new_cost = objective(shape + turn, tried)
        is_new = new_cost < cost
        if not is_new:
            damping *= 8.0
            if damping > MAX_DAMPING:
                break
            continue
        is_settled = cost - new_cost < MIN_BODY_DECREASE * cost
        shape, state, here, blocks, slopes, cost = shape + turn, tried, there, new_blocks, new_slopes, new_cost
        damping = max(0.3 * damping, MIN_DAMPING)
        if is_settled:
            break
    return here, state


@kernel
def solve_banded_cholesky(bands: FloatArray, b: FloatArray) -> None:
    """Overwrite ``b`` ``(N, M)`` by the answers of a positive definite system; entry (i, j) is bands[w + i - j, j].

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
        for c in range(b.shape[1]):
            b[i, c] /= bands[width, i]
            for j in range(i + 1, min(size, i + width + 1)):
                b[j, c] -= bands[width + i - j, j] * b[i, c]
    for i in range(size - 1, -1, -1):
        for c in range(b.shape[1]):
            for j in range(i + 1, min(size, i + width + 1)):
                b[i, c] -= bands[width + i - j, j] * b[j, c]
            b[i, c] /= bands[width, i]
