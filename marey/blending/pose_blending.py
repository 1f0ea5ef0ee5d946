"""Blending of poses: by root, by centre of mass, or by centre of mass and planted feet.

With planted feet, a compiled search finds the root that puts the centre of mass on its target while feet stand
still.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray, kernel
from marey.blending.sources import (
    UP,
    BlendSource,
    ball_position,
    find_knee_direction,
    get_leg,
    mean_rotations,
    normalise,
    project_across,
)
from marey.dynamics import Body
from marey.kinematics import Limb
from marey.lie import SO3
from marey.lie.kernels import cross, dot, row3, solve3
from marey.skeleton import joint_frames

MAX_ROOT_ITERATIONS = 20
MAX_ROOT_STEP_M = 0.1  # [m] longest step of the root
DIFFERENCE_STEP_M = 1e-6  # [m] for differences
COM_TOL_M = 1e-9  # [m]
SINGULAR_BELOW = 1e-6  # [-] determinant of a Jacobian that counts as singular
EXTENSION_SLACK = 1e-4  # [-] of a leg that is never stretched out


class RootSearch(NamedTuple):
    """What is known of N poses with L planted legs whose root is sought."""

    com: FloatArray  # (N, 3) [m] wanted centre of mass
    rest: FloatArray  # (N, 3) [kg m] first moment of all but the planted legs, the root at the origin
    rest_mass: float  # [kg] their mass
    hips: FloatArray  # (N, L, 3) [m] relative to the root
    ankles: FloatArray  # (N, L, 3) [m] where they stand
    poles: FloatArray  # (N, L, 3) directions towards which the knees bend
    lengths: FloatArray  # (L, 2) [m] thigh and shank
    masses: FloatArray  # (L, 3) [kg] thigh, shank, foot
    centres: FloatArray  # (N, L, 2, 3) [m] of thigh and shank: along the bone, to its side, along the knee's axis
    feet: FloatArray  # (N, L, 3) [kg m] first moments of the planted feet


@kernel
def _normalise(v: FloatArray) -> float:
    size = np.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])
    if size > 1e-12:
        v /= size
    return size


@kernel
def _first_moment(
    search: RootSearch, f: int, root: FloatArray, frames: FloatArray, reached: FloatArray, out: FloatArray
) -> None:
    """Write the first moment of mass [kg m] of the whole body with its root there into ``out (3,)``.

    ``frames (L, 3, 3)`` take the directions of thigh and shank and the axis of the knee, ``reached (L, 3)`` the ankles.
    """
    out[:] = search.rest[f] + search.rest_mass * root
    for leg in range(len(search.lengths)):
        l1, l2 = search.lengths[leg, 0], search.lengths[leg, 1]
        hip, ankle, pole = root + search.hips[f, leg], search.ankles[f, leg], search.poles[f, leg]
        n, b, axis = frames[leg, 0], frames[leg, 1], frames[leg, 2]
        # From the hip towards the ankle, no farther than the leg reaches
        n[:] = ankle - hip
        far = _normalise(n)
        length = min(max(far, abs(l1 - l2) + 1e-6), (1.0 - EXTENSION_SLACK) * (l1 + l2))
        reached[leg] = hip + length * n
        # The knee lies on its circle about that line, in the direction of the pole
        b[:] = pole - dot(row3(search.poles[f], leg), row3(frames[leg], 0)) * n
        _normalise(b)
        axis[0], axis[1], axis[2] = cross(row3(frames[leg], 0), row3(frames[leg], 1))
        x = (l1 * l1 - l2 * l2 + length * length) / (2.0 * length)
        r = np.sqrt(max(l1 * l1 - x * x, 0.0))
        knee = x * n + r * b
        b[:] = (length * n - knee) / l2
        n[:] = knee / l1
        # Thigh and shank turn with their frames, the foot keeps its rotation
        knee = hip + l1 * n
        side = np.empty(3)
        for bone in range(2):
            side[0], side[1], side[2] = cross(row3(frames[leg], 2), row3(frames[leg], bone))
            c = search.centres[f, leg, bone]
            start = hip if bone == 0 else knee
            out += search.masses[leg, bone] * (start + c[0] * frames[leg, bone] + c[1] * side + c[2] * axis)
        out += search.feet[f, leg] + search.masses[leg, 2] * (reached[leg] - ankle)


@kernel
def solve_roots(search: RootSearch) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, IntArray]:
    r"""Root positions with which the body has its centre of mass where it is wanted, its planted feet where they stand.

    Newton's method on :math:`\frac1m\sum_i m_i c_i(P) = P_{com}` with the knees on their circles:
    [Safonova2006]_ App. C, whose sums lack the division by the mass.

    Returns:
        Roots ``(N, 3)``, leg frames ``(N, L, 3, 3)`` (rows: thigh, shank, axis), ankles reached ``(N, L, 3)``, how far
        the centre of mass is off ``(N,)`` [m], steps ``(N,)``.
    """
    com, legs = search.com, search.lengths.shape[0]
    count = com.shape[0]
    roots, frames, reached = np.empty((count, 3)), np.empty((count, legs, 3, 3)), np.empty((count, legs, 3))
    off, steps = np.empty(count), np.zeros(count, dtype=np.int64)
    total = search.rest_mass + search.masses.sum()
    moment, moved, J = np.empty(3), np.empty(3), np.empty((3, 3))
    root, probe, move = np.empty(3), np.empty(3), np.empty(3)
    for f in range(count):
        # Begin at the last root, carried along with the centre of mass
        root[:] = com[f] - search.rest[f] / total if f == 0 else roots[f - 1] + com[f] - com[f - 1]
        goal = total * com[f]
        best = np.inf
        damping = 1.0
        for step in range(MAX_ROOT_ITERATIONS):
            _first_moment(search, f, root, frames[f], reached[f], moment)
            miss = (goal - moment) / total
            size = float(np.linalg.norm(miss))
            if size < best:
                best = size
                roots[f] = root
            else:
                damping *= 0.5
            if size < COM_TOL_M or damping < 0.05:
                break
            steps[f] = step + 1
            # Jacobian of the centre of mass by differences, then a damped Newton step of limited length
            for i in range(3):
                probe[:] = root
                probe[i] += DIFFERENCE_STEP_M
                _first_moment(search, f, probe, frames[f], reached[f], moved)
                J[:, i] = (moved - moment) / (DIFFERENCE_STEP_M * total)
            move[0], move[1], move[2] = solve3(J, (miss[0], miss[1], miss[2]), SINGULAR_BELOW)
            far = np.sqrt(move[0] * move[0] + move[1] * move[1] + move[2] * move[2])
            root += damping * min(1.0, MAX_ROOT_STEP_M / max(far, 1e-12)) * move
        # Legs of the best root
        _first_moment(search, f, roots[f], frames[f], reached[f], moment)
        miss = moment / total - com[f]
        off[f] = float(np.linalg.norm(miss))
    return roots, frames, reached, off, steps


ROOT_SCHEMES: Final = ("auto", "com", "root")
STANCE_SCHEMES: Final = ("contact", "foot_root")


@dataclass(frozen=True, slots=True, eq=False)
class BlendedPoses:
    """Blended poses."""

    roots: FloatArray  # (N, 3) [m]
    wxyz: FloatArray  # (N, J, 4)
    com_off_m: FloatArray  # (N,) how far the centre of mass is from the blended one; legs are too short where it is
    steps: int = 0  # most steps that the search for a root took


@dataclass(frozen=True, slots=True, eq=False)
class WeightedSources:
    """The sources of one phase, at the same shares, and their weights."""

    body: Body
    sources: Sequence[BlendSource]
    weights: FloatArray
    rotations: str  # "slerp" or "log"

    def mean(self, values: Sequence[FloatArray]) -> FloatArray:
        """Weighted mean of arrays."""
        return np.tensordot(self.weights, np.stack(values), axes=1)

    def local_rotations(self) -> FloatArray:
        """Blended local rotations ``(N, J, 4)``; the root's yaw is blended as a number, so that full turns count."""
        # Yaws shifted by whole turns so that all begin within half a turn of the first
        first = float(self.sources[0].yaw[0])
        turns = [float(np.round((float(s.yaw[0]) - first) / (2.0 * np.pi))) for s in self.sources]
        yaw = self.mean([s.yaw - 2.0 * np.pi * turn for s, turn in zip(self.sources, turns, strict=True)])
        tilt = mean_rotations([s.tilt for s in self.sources], self.weights, self.rotations)
        joints = mean_rotations([s.joints for s in self.sources], self.weights, self.rotations)
        root = SO3.exp(yaw[:, None] * UP) @ tilt
        return np.concatenate([root.wxyz[:, None], joints.wxyz], axis=1)


def blend_by_root(mixture: WeightedSources) -> BlendedPoses:
    """The naive rule: blend the root's position and all rotations ([Safonova2006]_ (5.2))."""
    roots = mixture.mean([s.roots for s in mixture.sources])
    return BlendedPoses(roots, mixture.local_rotations(), np.zeros(len(roots)))


def blend_by_com(mixture: WeightedSources) -> BlendedPoses:
    r"""Blend the centre of mass and all rotations: :math:`P_{root} = P_{com} - P^0_{com}(Q)` ([Safonova2006]_ (5.4)).

    A flight so falls on a parabola, whatever the limbs do.
    """
    wxyz = mixture.local_rotations()
    centres = mixture.mean([s.centres for s in mixture.sources])
    positions, frames = joint_frames(mixture.body.skeleton, np.zeros_like(centres), wxyz)
    shares = mixture.body.masses / mixture.body.mass_kg
    away = np.einsum("j,njk->nk", shares, positions + frames @ mixture.body.centres)
    return BlendedPoses(centres - away, wxyz, np.zeros(len(centres)))


def blend_by_foot(mixture: WeightedSources, foot: str) -> BlendedPoses:
    """Blend root and rotations in the frame of one planted foot, which stays; the other may slide a little.

    What the demonstrations of [Safonova2006]_ §5.6 did. The sources stand in one frame already, so the root is blended
    and then moved so that the blended foot is where the sources' foot is.
    """
    poses = blend_by_root(mixture)
    positions, frames = joint_frames(mixture.body.skeleton, poses.roots, poses.wxyz)
    ball = mixture.mean([s.feet[foot].ball for s in mixture.sources])
    roots = poses.roots + ball - ball_position(mixture.body.skeleton, foot, positions, frames)
    return BlendedPoses(roots, poses.wxyz, poses.com_off_m)


def blend_by_contact(mixture: WeightedSources, feet: Sequence[str]) -> BlendedPoses:
    r"""Blend the centre of mass, the planted feet and what is not redundant ([Safonova2006]_ (5.10)).

    The ball of each planted foot and the foot's rotation are blended, the knee lies on its circle in the blended
    direction, and the root follows from the centre of mass: :math:`P_{root} = F_2(P_{com}, Q_{nr}, C)`.
    """
    body, wxyz = mixture.body, mixture.local_rotations()
    centres = mixture.mean([s.centres for s in mixture.sources])
    positions, frames = joint_frames(body.skeleton, np.zeros_like(centres), wxyz)
    legs = [_PlantedLeg.from_mixture(mixture, foot, positions, frames) for foot in feet]
    # All that is not a planted leg turns as blended; its first moment is known up to the root
    free = np.ones(body.skeleton.num_joints, dtype=bool)
    for leg in legs:
        free &= ~leg.thigh & ~leg.shank & ~leg.foot
    points = positions + frames @ body.centres
    search = RootSearch(
        com=centres,
        rest=np.einsum("j,njk->nk", body.masses * free, points),
        rest_mass=float(body.masses[free].sum()),
        hips=np.stack([positions[:, leg.limb.upper] for leg in legs], axis=1),
        ankles=np.stack([leg.ankle for leg in legs], axis=1),
        poles=np.stack([leg.pole for leg in legs], axis=1),
        lengths=np.array([leg.lengths for leg in legs]),
        masses=np.array([leg.masses for leg in legs]),
        centres=np.stack([leg.centres for leg in legs], axis=1),
        feet=np.stack([leg.foot_moment for leg in legs], axis=1),
    )
    roots, turned, reached, off, steps = solve_roots(search)
    # Legs take the rotations that the search found
    for number, leg in enumerate(legs):
        leg.bend(wxyz, frames, turned[:, number])
    off = np.maximum(off, np.max([np.linalg.norm(reached[:, i] - leg.ankle, axis=-1) for i, leg in enumerate(legs)], 0))
    return BlendedPoses(roots, wxyz, off, int(steps.max()))


@dataclass(frozen=True, slots=True, eq=False)
class _PlantedLeg:
    """A planted leg, as the search for the root sees it."""

    limb: Limb
    parents: tuple[int, int, int]  # of hip, knee, ankle
    thigh: BoolArray  # (J,) joints that move with the thigh
    shank: BoolArray
    foot: BoolArray
    lengths: FloatArray  # (2,) [m]
    masses: FloatArray  # (3,) [kg] thigh, shank, foot
    ankle: FloatArray  # (N, 3) [m] where it stands
    R_world_foot: SO3  # batch (N,)
    pole: FloatArray  # (N, 3) direction of the knee
    bones: FloatArray  # (N, 2, 3, 3) rows along, side, axis of thigh and shank, before they turn
    centres: FloatArray  # (N, 2, 3) [m] of thigh and shank in those
    foot_moment: FloatArray  # (N, 3) [kg m]

    @classmethod
    def from_mixture(cls, mixture: WeightedSources, foot: str, positions: FloatArray, frames: SO3) -> _PlantedLeg:
        """Gather a leg from blended poses with the root at the origin."""
        body = mixture.body
        limb = get_leg(body.skeleton, foot)
        hip, knee, ankle = (positions[:, joint] for joint in (limb.upper, limb.middle, limb.end))
        pole = normalise(mixture.mean([s.feet[foot].knee for s in mixture.sources]))
        paths = [s.feet[foot] for s in mixture.sources]
        R_foot = mean_rotations([p.R_world_ankle for p in paths], mixture.weights, "slerp")
        # The blended foot stands on its blended ball
        turn = R_foot @ frames[:, limb.end].inverse()
        ball = ball_position(body.skeleton, foot, positions, frames)
        stand = mixture.mean([p.ball for p in paths]) - turn @ (ball - ankle)
        # Masses and first moments of thigh, shank and foot about hip, knee and ankle
        joints = np.arange(body.skeleton.num_joints)
        below = [np.isin(joints, body.skeleton.subtree(joint)) for joint in (limb.upper, limb.middle, limb.end)]
        groups = (below[0] & ~below[1], below[1] & ~below[2], below[2])
        points = positions + frames @ body.centres
        masses = np.array([body.masses[group].sum() for group in groups])
        # Frames of thigh and shank before they turn; a straight leg bends towards its pole
        along = normalise(ankle - hip)
        bend = find_knee_direction(hip, knee, ankle, normalise(project_across(pole, along)))
        axis = normalise(np.cross(along, bend))
        bones = np.stack([_frame_rows(normalise(end), axis) for end in (knee - hip, ankle - knee)], axis=1)
        heavy = [np.einsum("j,njk->nk", body.masses * group, points) for group in groups]
        middles = [h - m * start for h, m, start in zip(heavy, masses, (hip, knee, ankle), strict=True)]
        centres = np.stack(
            [np.einsum("nab,nb->na", bones[:, i], middles[i]) / max(masses[i], 1e-12) for i in range(2)], axis=1
        )
        first, second = np.linalg.norm(knee - hip, axis=-1)[0], np.linalg.norm(ankle - knee, axis=-1)[0]
        parents = tuple(int(body.skeleton.parents[j]) for j in (limb.upper, limb.middle, limb.end))
        moment = masses[2] * stand + turn @ middles[2]
        return cls(
            limb,
            (parents[0], parents[1], parents[2]),
            *groups,
            lengths=np.array([first, second]),
            masses=masses,
            ankle=stand,
            R_world_foot=R_foot,
            pole=pole,
            bones=bones,
            centres=centres,
            foot_moment=moment,
        )

    def bend(self, wxyz: FloatArray, frames: SO3, turned: FloatArray) -> None:
        """Write the local rotations of hip, knee and ankle into ``wxyz``; ``turned`` are new legs (N, 3, 3)."""
        axis = turned[:, 2]
        turns = [
            SO3.from_matrix(np.swapaxes(_frame_rows(turned[:, i], axis), -1, -2) @ self.bones[:, i]) for i in range(2)
        ]
        hip, knee, ankle = self.limb.upper, self.limb.middle, self.limb.end
        wxyz[:, hip] = (frames[:, self.parents[0]].inverse() @ turns[0] @ frames[:, hip]).wxyz
        wxyz[:, knee] = ((turns[0] @ frames[:, self.parents[1]]).inverse() @ turns[1] @ frames[:, knee]).wxyz
        wxyz[:, ankle] = ((turns[1] @ frames[:, self.parents[2]]).inverse() @ self.R_world_foot).wxyz


def _frame_rows(along: FloatArray, axis: FloatArray) -> FloatArray:
    """Rows along, side, axis ``(N, 3, 3)`` of a bone."""
    axis = normalise(project_across(axis, along))
    return np.stack([along, np.cross(axis, along), axis], axis=1)
