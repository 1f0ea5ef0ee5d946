"""Ranges and coupled regions of joint coordinates: published ones, those fitted to captured people, and their file.

Ranges are the normal values of [AAOS1965]_ and [NorkinWhite2016]_, given there for whole regions. Where a skeleton has
several joints for one region (three for the spine, two for the neck), each may take six tenths of it, since skeletons
share a bend in different ways. Clavicles are those of [Inman1944]_.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, IntArray, TensorFormat
from marey.lie import SO3
from marey.skeleton import ROLES

STUB_RAD: Final = float(np.deg2rad(3.0))  # [rad] a joint that no person has: a file's rounding, and no motion
TWIST_BONE_RAD: Final = float(np.deg2rad(12.0))  # [rad] swing of a joint inside a long bone, which only twists
X, Y, Z = np.eye(3)


@dataclass(frozen=True, slots=True, eq=False)
class JointPart:
    """A joint of the body, left side for paired ones.

    Coordinates are flexion about ``flexion``, side swing about ``bone x flexion`` and twist about ``bone``, measured
    from ``centre_deg``. Axes are those of the calibration pose: x left, y up, z forward.
    """

    bone: FloatArray  # (3,) direction of the bone, the axis of twist
    flexion: FloatArray  # (3,) axis about which a positive turn flexes
    ranges_deg: tuple[tuple[float, float], tuple[float, float], tuple[float, float]]  # flexion, side swing, twist
    centre_deg: tuple[float, float] = (0.0, 0.0)  # flexion and side swing from which coordinates are measured

    def frame(self) -> SO3:
        """Rotation whose columns are bone, flexion and side axes."""
        return SO3.from_matrix(np.stack([self.bone, self.flexion, np.cross(self.bone, self.flexion)], axis=1))

    def coordinates(self, turned: SO3) -> FloatArray:
        """Flexion, side swing and twist ``(..., 3)`` [rad] of rotations away from the calibration pose."""
        frame = self.frame()
        swing, twist = (self.centre().inverse() @ frame.inverse() @ turned @ frame).swing_twist([1.0, 0.0, 0.0])
        return np.concatenate([swing.log()[..., 1:], twist.log()[..., :1]], axis=-1)

    def centre(self) -> SO3:
        """Rotation in the middle of the range, in the axes of :meth:`frame`."""
        return SO3.exp([0.0, *np.deg2rad(self.centre_deg)])


SPINE: Final = JointPart(Y, X, ((-32.0, 60.0), (-25.0, 25.0), (-30.0, 30.0)))
NECK: Final = JointPart(Y, X, ((-40.0, 40.0), (-30.0, 30.0), (-45.0, 45.0)))

PARTS: Final = {
    # Flexion forward 120, extension 30; adduction 30, abduction 45; rotation inwards and outwards 45
    "hip": JointPart(-Y, -X, ((-30.0, 120.0), (-60.0, 30.0), (-45.0, 45.0)), (45.0, 0.0)),
    # Flexion 135 to 150, hyperextension 10; the shank turns when the knee is bent
    "knee": JointPart(-Y, X, ((-10.0, 155.0), (-10.0, 10.0), (-30.0, 30.0)), (60.0, 0.0)),
    # Dorsiflexion 20, plantar flexion 50; twist is eversion 15, inversion 35
    "ankle": JointPart(Z, -X, ((-55.0, 45.0), (-35.0, 35.0), (-35.0, 20.0))),
    # Metatarsal joints: extension 70, flexion 45
    "foot": JointPart(Z, -X, ((-45.0, 70.0), (-10.0, 10.0), (-10.0, 10.0))),
    # Thorax on pelvis: flexion 80, extension 25, to the sides 35, rotation 45
    "spine1": SPINE,
    "spine2": SPINE,
    "spine3": SPINE,
    # Cervical spine: flexion 45, extension 45 to 65, to the sides 45, rotation 60 to 80
    "neck": NECK,
    "head": NECK,
    # Sterno-clavicular joint: up 45, down 10, forward and back 30, rotation about its length 50. Down is counted from
    # hanging arms, where a clavicle lies up to 15 lower than in a calibration pose with raised arms
    "collar": JointPart(X, Z, ((-25.0, 45.0), (-30.0, 30.0), (-50.0, 50.0))),
    # Upper arm from a place before and below the shoulder: 180 upwards, 60 backwards, across 135; rotation 70 and 90
    "shoulder": JointPart(X, Z, ((-115.0, 100.0), (-65.0, 125.0), (-110.0, 110.0)), (-35.0, 35.0)),
    # Flexion 150, hyperextension 10, carrying angle; pronation and supination 80 to 90
    "elbow": JointPart(X, -Y, ((-10.0, 150.0), (-35.0, 15.0), (-90.0, 90.0)), (60.0, 0.0)),
    # Flexion 80, extension 70, to the sides 20 and 30: files do not agree on the palm at rest, and many
    # store the twist of the forearm here
    "wrist": JointPart(X, -Z, ((-80.0, 80.0), (-80.0, 80.0), (-90.0, 90.0))),
}

HANGING: Final = SO3.exp([0.0, 0.0, np.deg2rad(-82.0)])  # the left arm from the calibration pose to beside the body

# What an examiner asks for: the last turn of each joint [deg] as a rotation vector in the axes of the body, from
# standing; joints of the right side as in a mirror. Hips flex with a bent knee;
# the raise of a straight leg stands apart.
MOVEMENTS: Final = (
    {"left_hip": (-120.0, 0.0, 0.0), "left_knee": (130.0, 0.0, 0.0)},
    {"left_hip": (-85.0, 0.0, 0.0), "left_knee": (0.0, 0.0, 0.0)},
    {"left_hip": (30.0, 0.0, 0.0)},
    {"left_hip": (0.0, 0.0, 45.0)},
    {"left_hip": (0.0, 0.0, -30.0)},
    {"left_hip": (0.0, 45.0, 0.0)},
    {"left_hip": (0.0, -45.0, 0.0)},
    {"left_knee": (135.0, 0.0, 0.0)},
    {"left_ankle": (-20.0, 0.0, 0.0)},
    {"left_ankle": (50.0, 0.0, 0.0)},
    {"left_shoulder": (-180.0, 0.0, 0.0)},
    {"left_shoulder": (60.0, 0.0, 0.0)},
    {"left_shoulder": (0.0, 0.0, 175.0)},
    {"left_elbow": (0.0, -150.0, 0.0)},
    {"left_shoulder": (-90.0, 0.0, 0.0), "left_elbow": (0.0, -150.0, 0.0)},
    # Both sides together: arms out and up, sitting, squatting
    {"left_shoulder": (0.0, 0.0, 82.0), "right_shoulder": (0.0, 0.0, 82.0)},
    {"left_shoulder": (0.0, 0.0, 170.0), "right_shoulder": (0.0, 0.0, 170.0)},
    {"left_shoulder": (0.0, 0.0, 82.0), "right_shoulder": (0.0, 0.0, 82.0), "left_elbow": (0.0, -150.0, 0.0)},
    {"left_shoulder": (-175.0, 0.0, 0.0), "right_shoulder": (-175.0, 0.0, 0.0)},
    {
        "left_hip": (-90.0, 0.0, 0.0),
        "right_hip": (-90.0, 0.0, 0.0),
        "left_knee": (90.0, 0.0, 0.0),
        "right_knee": (90.0, 0.0, 0.0),
    },
    {
        "left_hip": (-120.0, 0.0, 0.0),
        "right_hip": (-120.0, 0.0, 0.0),
        "left_knee": (135.0, 0.0, 0.0),
        "right_knee": (135.0, 0.0, 0.0),
        "left_ankle": (-20.0, 0.0, 0.0),
        "right_ankle": (-20.0, 0.0, 0.0),
    },
    {"spine1": (30.0, 0.0, 0.0), "spine2": (25.0, 0.0, 0.0), "spine3": (25.0, 0.0, 0.0)},
    {"spine1": (-9.0, 0.0, 0.0), "spine2": (-8.0, 0.0, 0.0), "spine3": (-8.0, 0.0, 0.0)},
    {"spine1": (0.0, 0.0, 12.0), "spine2": (0.0, 0.0, 12.0), "spine3": (0.0, 0.0, 11.0)},
    {"spine1": (0.0, 15.0, 0.0), "spine2": (0.0, 15.0, 0.0), "spine3": (0.0, 15.0, 0.0)},
    {"neck": (25.0, 0.0, 0.0), "head": (20.0, 0.0, 0.0)},
    {"neck": (-25.0, 0.0, 0.0), "head": (-20.0, 0.0, 0.0)},
    {"neck": (0.0, 0.0, 23.0), "head": (0.0, 0.0, 22.0)},
    {"neck": (0.0, 35.0, 0.0), "head": (0.0, 35.0, 0.0)},
)
# The same from another pose than standing: elbows bend with raised arms too, where rotation is measured
FORWARD: Final = {f"{side}_shoulder": (-90.0, 0.0, 0.0) for side in ("left", "right")}
SIDEWAYS: Final = {f"{side}_shoulder": (0.0, 0.0, 82.0) for side in ("left", "right")}
RAISED_MOVEMENTS: Final = tuple(
    (raised, {f"{side}_elbow": (0.0, -150.0, 0.0) for side in ("left", "right")}) for raised in (FORWARD, SIDEWAYS)
) + tuple(
    (
        SIDEWAYS | {f"{side}_elbow": (0.0, -90.0, 0.0) for side in ("left", "right")},
        {f"{side}_shoulder": (turn, 0.0, 0.0) for side in ("left", "right")},
    )
    for turn in (-90.0, 70.0)
)


Axis = tuple[str, int]  # role, left for paired ones, and coordinate: 0 flexion, 1 side swing, 2 twist

PEOPLE_FILE: Final = TensorFormat(
    "marey-anatomy", "file of anatomical limits", 1, "Install marey again: the file ships with it."
)
SHIPPED: Final = Path(__file__).parent / "data" / "people.safetensors"

LEFT, OTHER = "left_", "right_"
SIDES: Final = ("left", "right")
# Coordinates of a region, and how much wider than captured it is [rad]; by cross-validation over people
REGIONS: Final[tuple[tuple[tuple[Axis, ...], float], ...]] = (
    # Swing and twist of one joint
    ((("left_hip", 0), ("left_hip", 1)), 0.15),
    ((("left_shoulder", 0), ("left_shoulder", 1)), 0.15),
    ((("left_hip", 0), ("left_hip", 1), ("left_hip", 2)), 0.1),
    ((("left_shoulder", 0), ("left_shoulder", 1), ("left_shoulder", 2)), 0.1),
    ((("left_ankle", 0), ("left_ankle", 1)), 0.1),
    # Hip and knee share the hamstrings and the rectus femoris, knee and ankle the gastrocnemius
    ((("left_hip", 0), ("left_hip", 1), ("left_knee", 0)), 0.0),
    ((("left_hip", 0), ("left_hip", 2), ("left_knee", 0)), 0.0),
    ((("left_hip", 1), ("left_hip", 2), ("left_knee", 0)), 0.05),
    ((("left_hip", 0), ("left_knee", 0), ("left_ankle", 0)), 0.15),
    # Shoulder and elbow
    ((("left_shoulder", 0), ("left_shoulder", 2), ("left_elbow", 0)), 0.05),
    ((("left_shoulder", 0), ("right_shoulder", 0), ("left_elbow", 0)), 0.05),
    # Both legs, both arms: pelvis and shoulder girdle are one piece each
    ((("left_hip", 0), ("left_hip", 1), ("right_hip", 1)), 0.0),
    ((("left_hip", 0), ("right_hip", 0), ("left_knee", 0)), 0.1),
    ((("left_hip", 0), ("left_knee", 0), ("right_knee", 0)), 0.05),
    ((("left_hip", 1), ("left_knee", 0), ("right_knee", 0)), 0.0),
    ((("left_shoulder", 0), ("left_shoulder", 1), ("right_shoulder", 0)), 0.15),
    ((("left_shoulder", 0), ("left_shoulder", 2), ("right_shoulder", 0)), 0.05),
    # The trunk bends as one, and the hips and shoulders go with it
    ((("spine1", 0), ("spine2", 0)), 0.1),
    ((("spine1", 2), ("spine2", 2)), 0.05),
    ((("spine1", 0), ("spine2", 0), ("left_hip", 0)), 0.05),
    ((("spine1", 0), ("left_hip", 0), ("left_knee", 0)), 0.2),
    ((("spine3", 0), ("left_shoulder", 0), ("right_shoulder", 0)), 0.05),
)


class Synergy(NamedTuple):
    """Joints that move together: their coordinates lie near those that somebody was captured in."""

    axes: tuple[Axis, ...]
    cell_rad: float  # [rad] of captured poses this near one stands for all
    reach_rad: float  # [rad] how far from a captured pose others may be; by cross-validation over people
    # Where the joints lie between pelvis (0) and neck (1): trunks that are cut elsewhere share a bend differently
    heights: tuple[tuple[str, float], ...] = ()


SPINES: Final = ("spine1", "spine2", "spine3")
HEIGHT_TOL: Final = 0.1  # of the way from pelvis to neck; captured trunks agree to 0.02, those of others differ by 0.2
SYNERGIES: Final = (
    Synergy((*((f"{side}_hip", c) for side in SIDES for c in range(3)), ("left_knee", 0), ("right_knee", 0)), 0.4, 0.4),
    Synergy(
        (*((f"{side}_shoulder", c) for side in SIDES for c in range(3)), ("left_elbow", 0), ("right_elbow", 0)),
        0.4,
        0.6,
    ),
    Synergy(
        tuple((role, c) for role in SPINES for c in range(3)),
        0.2,
        0.24,
        (("spine1", 0.0), ("spine2", 0.5), ("spine3", 1.0)),
    ),
)
MOST_MEMBERS: Final = 9
ORDER: Final = tuple(role for role in ROLES if not role.startswith(OTHER))


@dataclass(frozen=True, slots=True)
class PeopleSettings:
    """How far around captured poses limits reach."""

    margin_rad: float = 0.13  # [rad] around samples of three coordinates; by cross-validation over people
    pair_margin_rad: float = 0.07  # [rad] around samples of two, which lie denser
    range_margin_rad: float = 0.1  # [rad] beyond the farthest captured value of a coordinate
    outlier_share: float = (
        3e-3  # [-] of a person's frames at each end of a coordinate that may be faults of the capture
    )
    witnesses: int = 3  # people who must take a coordinate so far
    beyond_rad: float = 0.5  # [rad] captures go no further than this beyond published ranges: ankles flip in many
    support_rad: float = 0.07  # [rad] a sample without another one this near is a fault too
    nodes: tuple[int, int] = (22, 32)  # of each axis of regions of three and of two coordinates


PEOPLE_SETTINGS: Final = PeopleSettings()
METRIC_FOLDS: Final = 3  # parts of the people of whom each is left out once
METRIC_STEPS: Final = 3  # after which the metric does not change any more
METRIC_FRAME_STEP: Final = 8  # frames a quarter of a second apart tell as much as all
STEP_RAD: Final = 0.01  # [rad] of the distances in the file, one byte each


@dataclass(frozen=True, slots=True, eq=False)
class PeopleRanges:
    """Intervals of every coordinate, and coupled regions as tables of signed distances."""

    low: FloatArray  # (R, 3) [rad] in the order of ORDER, from the centre of each part
    high: FloatArray  # (R, 3) [rad]
    grids: NDArray[
        np.int64
    ]  # (T, 4) place of the first value of a region, nodes of each axis; a pair has one node first
    origins: FloatArray  # (T, 3) [rad]
    spacings: FloatArray  # (T, 3) [rad]
    distances: NDArray[np.int8]  # (V,) in steps of STEP_RAD
    spans: NDArray[np.int64]  # (S + 1,) first exemplar of each synergy
    exemplars: NDArray[np.int16]  # (E, 9) captured coordinates in steps of STEP_RAD; standing first
    metrics: FloatArray  # (S, 9, 9) how distances to exemplars are measured

    def save(self, path: str | Path, made_by: str, clips: Iterable[str]) -> None:
        """Write the file, with the command and the clips that made it."""
        arrays = {name: getattr(self, name) for name in self.__slots__}
        regions = [[f"{role}:{c}" for role, c in region] for region, _ in REGIONS]
        PEOPLE_FILE.write(path, arrays, {"made_by": made_by, "clips": sorted(clips), "regions": regions})


@cache
def load_people(path: Path = SHIPPED) -> PeopleRanges:
    """Read the ranges that ship."""
    arrays, _ = PEOPLE_FILE.read(path)
    return PeopleRanges(**arrays)


def fit_people(poses: FloatArray, people: IntArray, settings: PeopleSettings = PEOPLE_SETTINGS) -> PeopleRanges:
    """Fit ranges and regions to captured poses and to the movements that tables of normal ranges describe.

    Args:
        poses: coordinates ``(N, 22, 3)`` [rad] of all roles; of the right side as in a mirror.
        people: whose pose each is ``(N,)``.
        settings: margins.
    """
    # A standing body that makes each of the published movements [AAOS1965]_; shoulders and forearms are measured
    # from hanging arms
    steps = np.linspace(0.0, 1.0, 60)[:, None]
    movements = [*((dict[str, tuple[float, float, float]](), moved) for moved in MOVEMENTS), *RAISED_MOVEMENTS]
    moved = np.zeros((len(movements), 60, len(ROLES), 3))
    for r, role in enumerate(ROLES):
        name = role.removeprefix("left_").removeprefix("right_")
        if name not in PARTS:
            continue
        hanging = HANGING if name == "shoulder" else SO3.exp(np.zeros(3))
        for m, (held, movement) in enumerate(movements):
            start, turn = (np.deg2rad(turns.get(role, (0.0, 0.0, 0.0))) for turns in (held, movement))
            moved[m, :, r] = PARTS[name].coordinates(SO3.exp(steps * turn) @ SO3.exp(start) @ hanging)
    published = moved.reshape(-1, len(ROLES), 3)
    every = np.concatenate([poses, mirror_poses(poses)])
    who = np.concatenate([people, people])
    # A coordinate goes as far as some people take it, without the far ends of each, which are faults of the capture
    share, witnesses = settings.outlier_share, min(settings.witnesses, len(np.unique(people)))
    ends = np.stack([np.quantile(every[who == one], [share, 1.0 - share], axis=0) for one in np.unique(people)])
    least, most = np.sort(ends[:, 0], axis=0)[witnesses - 1], np.sort(ends[:, 1], axis=0)[-witnesses]
    stands, beyond = mirror_poses(published), settings.beyond_rad
    for r, role in enumerate(ROLES):
        part = PARTS.get(role.removeprefix(LEFT).removeprefix(OTHER))
        if part is not None:
            bounds = np.deg2rad(part.ranges_deg) - np.deg2rad([*part.centre_deg, 0.0])[:, None]
            least[r], most[r] = np.maximum(least[r], bounds[:, 0] - beyond), np.minimum(most[r], bounds[:, 1] + beyond)
    least, most = np.minimum(least, published.min(axis=0)), np.maximum(most, published.max(axis=0))
    least, most = np.minimum(least, stands.min(axis=0)), np.maximum(most, stands.max(axis=0))
    margin = settings.range_margin_rad
    is_sound = np.all((every >= least - margin) & (every <= most + margin), axis=(1, 2))
    every = np.concatenate([every[is_sound], published, stands])
    rows = [ROLES.index(role) for role in ORDER]
    low, high = least[rows] - margin, most[rows] + margin
    for r, role in enumerate(ORDER):
        part = PARTS.get(role.removeprefix(LEFT))
        if part is not None:
            bounds = np.deg2rad(part.ranges_deg) - np.deg2rad([*part.centre_deg, 0.0])[:, None]
            low[r], high[r] = np.minimum(low[r], bounds[:, 0]), np.maximum(high[r], bounds[:, 1])
    grids: list[list[int]] = []
    origins: list[list[float]] = []
    spacings: list[list[float]] = []
    distances: list[NDArray[np.int8]] = [np.zeros(0, dtype=np.int8)]
    for region, wider in REGIONS:
        ends = [(low[ORDER.index(_left(role)), c], high[ORDER.index(_left(role)), c]) for role, c in region]
        points = np.stack([every[:, ROLES.index(role), c] for role, c in region], axis=1)
        origin, spacing, values = _fit_region(points, np.array(ends), settings, wider)
        place = sum(len(part) for part in distances)
        pad = 3 - len(region)
        grids.append([place, *[1] * pad, *values.shape])
        origins.append([*[0.0] * pad, *origin])
        spacings.append([*[1.0] * pad, *spacing])
        distances.append(np.clip(np.round(values / STEP_RAD), -127, 127).astype(np.int8).ravel())
    # Both sides are one in a mirror, so exemplars of one are enough
    shown, owners = poses[is_sound[: len(poses)]], people[is_sound[: len(poses)]]
    exemplars: list[FloatArray] = []
    metrics = np.zeros((len(SYNERGIES), MOST_MEMBERS, MOST_MEMBERS))
    for s, synergy in enumerate(SYNERGIES):
        rows, axes = [ROLES.index(role) for role, _ in synergy.axes], [c for _, c in synergy.axes]
        points, size = shown[:, rows, axes], len(rows)
        units = np.zeros((size, len(ROLES), 3))
        units[np.arange(size), rows, axes] = 1.0
        metric = _learn_metric(points, mirror_poses(units)[:, rows, axes], owners, synergy.cell_rad)
        chosen = _choose_exemplars(np.concatenate([published[:, rows, axes], points]), metric, synergy.cell_rad)
        exemplars.append(np.pad(chosen, ((0, 0), (0, MOST_MEMBERS - size))))
        metrics[s, :size, :size] = metric
    return PeopleRanges(
        low,
        high,
        np.array(grids),
        np.array(origins),
        np.array(spacings),
        np.concatenate(distances),
        np.cumsum([0, *map(len, exemplars)]),
        np.round(np.concatenate(exemplars) / STEP_RAD).astype(np.int16),
        metrics,
    )


def _choose_exemplars(points: FloatArray, metric: FloatArray, cell_rad: float) -> FloatArray:
    """First of the points ``(N, D)`` in each cell that the metric leaves."""
    cells: FloatArray = np.round(points @ metric / cell_rad)
    return points[np.sort(np.unique(cells, axis=0, return_index=True)[1])]


def _learn_metric(points: FloatArray, reflection: FloatArray, people: IntArray, cell_rad: float) -> FloatArray:
    r"""Metric ``(D, D)`` in which people who are left out differ from their nearest exemplars alike in all directions.

    With C the mean of :math:`(x - e)(x - e)^T` over people, poses x of theirs and nearest exemplars e of others,
    :math:`A = \sqrt{\operatorname{tr} C / D}\,C^{-1/2}`. Habits of one person count little.
    """
    from scipy.spatial import cKDTree

    names, size = np.unique(people), points.shape[1]
    metric = np.eye(size)
    # One person alone cannot be left out
    for _ in range(METRIC_STEPS if len(names) > 1 else 0):
        spread = np.zeros((size, size))
        for fold in range(METRIC_FOLDS):
            is_left_out = np.isin(people, names[fold::METRIC_FOLDS])
            others = np.concatenate([points[~is_left_out], points[~is_left_out] @ reflection])
            exemplars = _choose_exemplars(others, metric, cell_rad)
            tree = cKDTree(exemplars @ metric)
            for person in names[fold::METRIC_FOLDS]:
                some = points[people == person][::METRIC_FRAME_STEP]
                away = some - exemplars[tree.query(some @ metric)[1]]
                spread += away.T @ away / max(len(some), 1)
        # The same in a mirror; no direction counts for more than three others
        spread = 0.5 * (spread + reflection.T @ spread @ reflection)
        spread += 0.1 * np.trace(spread) / size * np.eye(size)
        values, vectors = np.linalg.eigh(spread)
        metric = np.sqrt(np.trace(spread) / size) * (vectors / np.sqrt(values)) @ vectors.T
    return metric


def _left(role: str) -> str:
    return role.replace(OTHER, LEFT)


def mirror_poses(poses: FloatArray) -> FloatArray:
    """Coordinates ``(N, 22, 3)`` of the same poses in a mirror: sides exchanged, the trunk turned the other way."""
    swapped = [ROLES.index(swap_sides(role)) for role in ROLES]
    signs = np.array([[1.0, 1.0, 1.0] if "_" in role else [1.0, -1.0, -1.0] for role in ROLES])
    return (poses * signs)[:, swapped]


def swap_sides(role: str) -> str:
    """Role of the other side."""
    return role.replace(LEFT, "@").replace(OTHER, LEFT).replace("@", OTHER)


def _fit_region(
    points: FloatArray, ends: FloatArray, settings: PeopleSettings, wider_rad: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Signed distance to the set around points ``(N, D)`` on a grid between ends ``(D, 2)``: origin, spacing, values.

    Along the last axis the set has no gaps, and lines without points take those of the nearest that has some, so that
    the last coordinate can always be chosen.
    """
    from scipy import ndimage

    filters: Any = cast(Any, ndimage)
    size = points.shape[1]
    nodes = settings.nodes[0] if size == 3 else settings.nodes[1]
    finer = 2 if size == 3 else 4
    count = (nodes - 1) * finer + 1
    step = (ends[:, 1] - ends[:, 0]) / (count - 1)
    cells = tuple(np.clip(np.round((points - ends[:, 0]) / step).astype(np.int64), 0, count - 1).T)
    counts = np.zeros((count,) * size)
    np.add.at(counts, cells, 1.0)
    # A sample that has no other near it is a fault of the capture
    window = 2 * np.maximum(1, np.round(settings.support_rad / step)).astype(np.int64) + 1
    support = filters.uniform_filter(counts, size=tuple(window), mode="constant") * np.prod(window)
    is_seen = (counts > 0.0) & (support > 1.5)
    margin = wider_rad + (settings.margin_rad if size == 3 else settings.pair_margin_rad)
    allowed = np.asarray(filters.distance_transform_edt(~is_seen, sampling=step)) <= margin
    lines = allowed.reshape(-1, count)
    first, last = lines.argmax(axis=1), count - 1 - lines[:, ::-1].argmax(axis=1)
    is_blank = ~lines.any(axis=1).reshape((count,) * (size - 1))
    near = filters.distance_transform_edt(is_blank, sampling=step[:-1], return_distances=False, return_indices=True)
    found = np.ravel_multi_index([axis.ravel() for axis in np.asarray(near)], (count,) * (size - 1))
    along = np.arange(count)
    allowed = (along >= first[found][:, None]) & (along <= last[found][:, None])
    allowed = allowed.reshape((count,) * size)
    outside, inside = (np.asarray(filters.distance_transform_edt(mask, sampling=step)) for mask in (~allowed, allowed))
    return ends[:, 0], step * finer, (outside - inside)[(slice(None, None, finer),) * size]
