"""Training of a locomotion model from captured clips: hierarchical components with a shared speed law as prior.

What all subjects have in common is lent to those of whom too little was captured. The standing unit, for subjects who
were captured in gaits only, is balanced from their walking units.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.lie import SO3
from marey.locomotion.fitting.jumps import fit_jumps
from marey.locomotion.fitting.timing import measure_gait_tables
from marey.locomotion.fitting.trials import ClipSource, Manifest, Progress, capture_units, load_manifest
from marey.locomotion.model.locomotion_model import (
    EFFECTORS,
    GAITS,
    HUMAN_LEG_M,
    TIMINGS,
    LocomotionModel,
    balance_gaits,
    expand_gait_arrays,
    load_model,
    round_tree,
)
from marey.locomotion.model.synthesis import synthesise_unit
from marey.locomotion.units.gait_unit import (
    LEG_PARTS,
    NUM_FRAMES,
    MotionUnit,
    find_far_rotations,
    joint_means,
    rotations_from_rows,
    unit_rows,
)
from marey.models import Components, HierarchicalModel, HierarchicalPCA, MotionUnits, principal_components
from marey.motion import Motion, centre_of_mass
from marey.motion.editing import opposite_joints
from marey.skeleton import HUMAN, joint_positions

NUM_SUFFICIENT_UNITS: Final = 8  # captures of a person and gait that need no more than two lent ones
SLOW_RUN: Final = 0.5  # [-] of the slowest captured run
PERSON_VARIANCE_RATIO: Final = 1.0  # [-] variance between persons over that of one person at one speed


@dataclass(frozen=True, slots=True, eq=False)
class SharedSpeedLaw:
    """Common dependence on speed in one gait: shared slope and captured range."""

    slope: FloatArray  # (p,) [s]
    mean: FloatArray  # (p,) of everybody at `speed`
    speed: float  # [1/s]
    slowest: float  # [1/s]
    fastest: float  # [1/s]

    def at(self, speed: float) -> FloatArray:
        """Row ``(p,)`` at a normalised speed [1/s]."""
        return self.mean + (speed - self.speed) * self.slope


def fit_shared_speed_law(units: MotionUnits, gait: str) -> SharedSpeedLaw:
    r"""Fit one slope to everybody, each person with an offset that is random.

    .. math:: \theta_i - \lambda_k\bar\theta_k = (1 - \lambda_k)\,b + a\,(s_i - \lambda_k\bar s_k) + \epsilon_i, \qquad
              \lambda_k = 1 - (1 + n_k\,\rho)^{-1/2}

    with :math:`\rho` the variance between persons over that within one: the random-effects estimator, which weighs how
    persons change against how they differ. All slopes within persons alone (:math:`\rho\to\infty`) are too flat where
    everybody was captured in a narrow range of speeds.
    """
    people = [s for s in dict.fromkeys(units.subjects) if units.rows_of(s, gait)]
    design: list[FloatArray] = []
    values: list[FloatArray] = []
    for person in people:
        rows = units.rows_of(person, gait)
        speeds, table = units.speeds[rows], units.table[rows]
        # lambda_k: how much of the person's own mean is taken out of the person's rows
        part = 1.0 - 1.0 / np.sqrt(1.0 + len(rows) * PERSON_VARIANCE_RATIO)
        design.append(np.stack([np.full(len(rows), 1.0 - part), speeds - part * speeds.mean()], axis=1))
        values.append(table - part * table.mean(axis=0))
    solved = np.linalg.lstsq(np.concatenate(design), np.concatenate(values), rcond=None)[0]
    # The line passes through the mean of all captures; a few outliers do not widen its range.
    every = units.speeds[[i for i, g in enumerate(units.gaits) if g == gait]]
    slowest, fastest = np.percentile(every, [2.0, 98.0])
    speed = float(every.mean())
    return SharedSpeedLaw(solved[1], solved[0] + speed * solved[1], speed, float(slowest), float(fastest))


def prior_units(
    units: MotionUnits, lines: dict[str, SharedSpeedLaw], standing: dict[str, FloatArray], posture: FloatArray
) -> list[MotionUnits]:
    """Units that stand in for what was not captured.

    A person with a gait gets two units on the common slope through the person's mean, at the slowest speed that
    anybody showed and as far above the mean (more of them for fewer than eight captures): they weigh as two captures,
    so a wide range of own speeds decides and a narrow one yields. A person without a gait gets the common gait, moved
    by the mean posture of the other gait. Runs slower than anybody showed shrink towards standing in proportion to
    speed: people then keep their cadence.

    Args:
        units: captured units, without standing.
        lines: common line by gait.
        standing: row ``(p,)`` of each person at rest.
        posture: ``(D,)`` 1 for columns whose mean over the cycle belongs to a person's posture, else 0.
    """
    lent: list[MotionUnits] = []
    for person in dict.fromkeys(units.subjects):
        for gait, line in lines.items():
            rows = units.rows_of(person, gait)
            if rows:
                pair, speeds = prior_rows(units.table[rows], units.speeds[rows], line)
                copies = max(1, (NUM_SUFFICIENT_UNITS - len(rows) + 1) // 2)
                table, at = np.tile(pair, (copies, 1)), np.tile(speeds, copies)
            else:
                # The common gait, moved by how the person's posture in the other gait differs from the common one
                other = GAITS[1 - GAITS.index(gait)]
                own = units.rows_of(person, other)
                offset = units.table[own].mean(axis=0) - lines[other].at(float(units.speeds[own].mean()))
                at = np.linspace(line.slowest, line.fastest, 4)
                table = np.stack([line.at(float(s)) for s in at]) + cycle_mean(offset, posture)
            lent.append(MotionUnits(table, (person,) * len(at), (gait,) * len(at), at))
            if gait == "run":
                # A run at a part of the slowest speed: that part of the way from standing to the slowest run
                slope = (table[-1] - table[0]) / (at[-1] - at[0])
                slowest = table[0] + (line.slowest - at[0]) * slope
                slow = standing[person] + SLOW_RUN * (slowest - standing[person])
                lent.append(MotionUnits(slow[None], (person,), (gait,), np.array([SLOW_RUN * line.slowest])))
    return lent


def prior_rows(table: FloatArray, speeds: FloatArray, line: SharedSpeedLaw) -> tuple[FloatArray, FloatArray]:
    """Two rows ``(2, p)`` on the common slope through a person's mean, and their speeds ``(2,)``."""
    centre, speed = table.mean(axis=0), float(speeds.mean())
    reach = max(speed - line.slowest, 0.25 * (line.fastest - line.slowest))
    at = np.array([speed - reach, speed + reach])
    return centre + (at - speed)[:, None] * line.slope, at


def cycle_mean(row: FloatArray, posture: FloatArray) -> FloatArray:
    """Mean over the frames of a unit's row ``(N * D,)``, repeated, in the columns ``posture`` ``(D,)`` alone."""
    frames = row.reshape(-1, len(posture))
    return np.tile(frames.mean(axis=0) * posture, len(frames))


EXPLAINED: Final = (0.98, 0.999)  # of the main level (the thesis: 0.95); of the levels below, which cost little
NOISY_JOINTS: Final = ("neck", "head", "left_wrist", "right_wrist", "left_foot", "right_foot")
NOISY_JOINT_WEIGHT: Final = 0.25  # of joints whose captured angles are mostly noise
COLUMN_WEIGHTS: Final[FloatArray] = np.repeat(
    [1.0, *(NOISY_JOINT_WEIGHT if name in NOISY_JOINTS else 1.0 for name in HUMAN.names)], 3
)  # (D,) of the columns of a unit in the components: noisy joints count less
POSTURE_COLUMNS: Final[FloatArray] = np.repeat([0.0, *(float(not n.endswith(LEG_PARTS)) for n in HUMAN.names)], 3)
"""One for the columns ``(D,)`` of a person's posture, zero for root and legs."""
SIDES: Final = ("left", "right")


def flatten_units(units: Sequence[MotionUnit], means: FloatArray) -> MotionUnits:
    """Rows of units, flattened."""
    rows = np.stack([unit_rows(unit.root, unit.wxyz, means).ravel() for unit in units])
    subjects, gaits = tuple(unit.subject for unit in units), tuple(unit.gait for unit in units)
    return MotionUnits(rows, subjects, gaits, np.array([unit.speed_n for unit in units]))


# legs reach 99.4 % of their length: soft knees, room for foot plants
STANDING_KNEE_RAD: Final = float(np.deg2rad(12.0))
STANDING_COM_FRACTION: Final = 0.38  # [-] of the way from ankle to ball: where people stand
PROBE_RAD: Final = 0.01
STANDING_HEAD_AHEAD_M: Final = 0.03  # [m] how far the head of a standing body is ahead of its pelvis
NUM_SECANT_STEPS: Final = 4  # of secants that have settled after three


def build_standing_row(walks: Sequence[MotionUnit], means: FloatArray) -> FloatArray:
    """Row ``(D,)`` of a person at rest: feet flat under the hips, soft knees, the upper body as it is on average.

    The upper body is the mean over the walks, made alike on both sides.
    """
    mean = joint_means(np.concatenate([unit.wxyz for unit in walks]))
    mirrored = mean[opposite_joints(HUMAN)[0]] * np.array([1.0, 1.0, -1.0, -1.0])
    wxyz = SO3(mean).slerp(SO3(mirrored), 0.5).wxyz.copy()
    spine = HUMAN.index("spine1")
    wxyz[spine] = (SO3(wxyz[0]) @ SO3(wxyz[spine])).wxyz
    for j, name in enumerate(HUMAN.names):
        if name.endswith(LEG_PARTS):
            # A softly bent leg whose foot stays level
            share = {"hip": -0.5, "knee": 1.0, "ankle": -0.5}.get(name.split("_")[-1], 0.0)
            wxyz[j] = SO3.exp(np.array([share * STANDING_KNEE_RAD, 0.0, 0.0])).wxyz
    # The spine is pitched until the head is over the pelvis, then the whole body about its ankles until the centre of
    # mass is over the feet: secants on the angle about the parent's axis across.
    legs = {HUMAN.index(f"{side}_{part}"): sign for side in SIDES for part, sign in (("hip", 1.0), ("ankle", -1.0))}
    for k, (joints, goal) in enumerate((({spine: 1.0}, STANDING_HEAD_AHEAD_M), (legs, STANDING_COM_FRACTION))):
        for _ in range(NUM_SECANT_STEPS):
            probe = _pitch_joints(wxyz, joints, PROBE_RAD)
            here, there = (_measure_stand(pose)[k] for pose in (wxyz, probe))
            wxyz = _pitch_joints(wxyz, joints, PROBE_RAD * (goal - here) / (there - here))
    root = np.zeros((1, 3))
    ankle = joint_positions(HUMAN, root, wxyz[None])[0, HUMAN.index("right_ankle"), 1]
    root[0, 1] = HUMAN.rest_positions()[HUMAN.index("right_ankle"), 1] - ankle
    return unit_rows(root / HUMAN_LEG_M, wxyz[None], means)[0]


def _pitch_joints(wxyz: FloatArray, signs: Mapping[int, float], angle: float) -> FloatArray:
    """Pitch some joints of a pose ``(J, 4)`` by an angle [rad], up or down."""
    out = wxyz.copy()
    for joint, sign in signs.items():
        out[joint] = (SO3.exp(np.array([sign * angle, 0.0, 0.0])) @ SO3(out[joint])).wxyz
    return out


def _measure_stand(wxyz: FloatArray) -> tuple[float, float]:
    """How far [m] the head is ahead of the pelvis, and the centre of mass between ankles (0) and balls (1)."""
    motion = Motion(HUMAN, 1.0, np.zeros((1, 3)), SO3(wxyz[None]))
    ahead = motion.joint_positions()[0, :, 2]
    ankle, ball = ahead[HUMAN.index("right_ankle")], ahead[HUMAN.index("right_foot")]
    com = (centre_of_mass(motion)[0, 2] - ankle) / (ball - ankle)
    return float(ahead[HUMAN.index("head")] - ahead[0]), float(com)


# fastest walk and run over the fastest captured: the thesis went 1.7 and 1.4 times
SPEED_EXTRAPOLATION: Final = (1.25, 1.1)


def fit_locomotion(
    source: ClipSource,
    manifest: Manifest | str | os.PathLike[str] | None = None,
    *,
    prior: LocomotionModel | bool = True,
    report: Progress | None = None,
    num_frames: int = NUM_FRAMES,
    jumps: bool = True,
) -> LocomotionModel:
    """Train a model of walking, running and jumping ([Glardon2005]_ part II).

    Args:
        source: folder of the clips, library, or a function that gives the clip of a name.
        manifest: which clips train, ``"shipped"`` for those of the shipped model; by default the clips are sorted by
            what they show (:func:`marey.locomotion.sort_clips`).
        prior: model that lends the gaits and jumps that nobody here shows, and the change with speed of people who
            were captured at one speed; ``True`` for the shipped one, ``False`` for none.
        report: called after each clip of the gaits.
        num_frames: of a motion unit.
        jumps: fit the jumps of the manifest too.

    Raises:
        MissingFileError: a clip of the manifest is not there.
        InputError: nobody walks or runs; without a prior, nobody walks or nobody runs.
    """
    if manifest is None:
        from marey.locomotion.fitting.sorting import sort_clips

        manifest = sort_clips(source).manifest
    plan = manifest if isinstance(manifest, Manifest) else load_manifest(manifest)
    known = (load_model() if prior else None) if isinstance(prior, bool) else prior
    captured = capture_units(source, plan, "train", report=report, num_frames=num_frames)
    if not captured.units:
        reasons = "; ".join(dict.fromkeys(cycle.reason for cycle in captured.rejected)) or "no clip of a gait is named"
        raise InputError(f"no cycle of a walk or run could be cut: {reasons}", "Give clips of people who walk")
    model = fit_units(captured.units, plan.default_style, prior=known)
    # What became of the clips, and the joints for which lines may not replace arcs, as plain data for the model's file
    units = captured.units
    rows = flatten_units(units, model.gaits.means).table.reshape(len(units), units[0].num_frames, -1)
    far = find_far_rotations(rows, HUMAN.names)
    found = fit_jumps(source, plan, skeleton=HUMAN, means=model.gaits.means) if jumps else {}
    lent = {} if known is None or not jumps else {kind: one for kind, one in known.jumps.items() if kind not in found}
    shown: dict[str, dict[str, list[float]]] = {person: {} for person in model.styles}
    for unit in units:
        shown[unit.subject].setdefault(unit.gait, []).append(unit.speed_n * model.leg_length_m)
    facts = {
        "captured": {p: {g: [len(v), min(v), max(v)] for g, v in gaits.items()} for p, gaits in shown.items()},
        "clips": sorted({unit.clip for unit in units}),
        "num_units": len(units),
        "rejected": [f"{r.clip} {r.start}-{r.stop}: {r.reason}" for r in captured.rejected],
        "notes": list(captured.notes),
        "audit": [
            f"{name}: up to {np.rad2deg(a):.0f}°, axes {np.rad2deg(b):.0f}° apart" for name, (a, b) in far.items()
        ],
        "labels": {name: text for name, text in plan.labels.items() if name in model.styles},
        "lent_jumps": list(lent),
    }
    return replace(model, info=facts, jumps={**found, **lent})


def sample_people(model: LocomotionModel, means: FloatArray) -> MotionUnits:
    """Rows of what the people of a model showed, at three speeds of each gait, relative to ``means`` ``(J, 4)``.

    A gait that nobody showed is that which was lent to them.
    """
    fastest = model.gaits.limits / SPEED_EXTRAPOLATION
    own = ~model.lent | model.lent.all(axis=0)
    people = [(k, t) for k in range(len(model.styles)) for t in (0, 1) if own[k, t]]
    speeds: dict[tuple[int, int], FloatArray] = {
        (k, t): np.linspace(float(model.gaits.slowest[k, t]), float(fastest[t]), 3) for k, t in people
    }
    rows: list[FloatArray] = []
    for k, t in people:
        for speed in speeds[k, t]:
            one = np.eye(len(model.styles))[k]
            unit = synthesise_unit(model.gaits, model.leg_length_m, float(speed), float(t), one)
            rows.append(unit_rows(unit[:, :3], rotations_from_rows(unit, model.gaits.means), means).ravel())
    names = tuple(f"prior/{model.styles[k]}" for k, _ in people for _ in range(3))
    gaits = tuple(GAITS[t] for _, t in people for _ in range(3))
    return MotionUnits(np.stack(rows), names, gaits, np.concatenate(list(speeds.values())))


def join_units(parts: Sequence[MotionUnits]) -> MotionUnits:
    """Tables of units, one below the other."""
    return MotionUnits(
        np.concatenate([part.table for part in parts]),
        tuple(s for part in parts for s in part.subjects),
        tuple(g for part in parts for g in part.gaits),
        np.concatenate([part.speeds for part in parts]),
    )


def fit_units(
    units: Sequence[MotionUnit],
    default_style: Sequence[str] = (),
    *,
    prior: LocomotionModel | None = None,
    limits: FloatArray | None = None,
    explained: float = EXPLAINED[0],
) -> LocomotionModel:
    """Train a model of gaits from units that were cut already.

    Args:
        units: walks and runs of any number of people.
        default_style: people whose even mixture is the default style; by default all with both gaits.
        prior: model whose people tell, beside those of the units, how gaits change with speed, and lend the gaits that
            nobody showed; the units have as many frames as its own, and the model has its mean rotations.
        limits: ``(2,)`` [1/s] fastest normalised walk and run; by default somewhat beyond the fastest captured.
        explained: share of the variance that the main components keep.
    """
    for gait in GAITS:
        if prior is None and not any(unit.gait == gait for unit in units):
            raise InputError(f"no unit is a {gait}", "A model without a prior needs walks and runs")
    if prior is not None and units[0].num_frames != prior.gaits.base.shape[2]:
        raise InputError(f"units of {units[0].num_frames} frames", f"The prior has {prior.gaits.base.shape[2]}")
    means = joint_means(np.concatenate([unit.wxyz for unit in units])) if prior is None else prior.gaits.means
    table = flatten_units(units, means)
    people = tuple(dict.fromkeys(table.subjects))
    # Who was only seen running stands as the others do on average.
    walks = [unit for unit in units if unit.gait == "walk"] or units
    own = {person: [unit for unit in walks if unit.subject == person] or walks for person in people}
    standing = np.stack([build_standing_row(own[person], means) for person in people])
    num_frames = units[0].num_frames
    whole = table if prior is None else join_units([table, sample_people(prior, means)])
    lines = {gait: fit_shared_speed_law(whole, gait) for gait in GAITS}
    at_rest = {person: np.tile(standing[k], num_frames) for k, person in enumerate(people)}
    stands = MotionUnits(np.stack(list(at_rest.values())), people, ("stand",) * len(people), np.zeros(len(people)))
    # Captured, lent and standing units, one below the other
    whole = join_units([table, *prior_units(table, lines, at_rest, POSTURE_COLUMNS), stands])
    # Main, personal and gait components; columns of noisy joints weigh less in all of them
    scales = np.tile(COLUMN_WEIGHTS, num_frames)
    scaled = MotionUnits(whole.table * scales, whole.subjects, whole.gaits, whole.speeds)
    count = principal_components(scaled.table, explained=explained).count
    fitted = HierarchicalPCA(explained=EXPLAINED[1], n_main=count).fit(scaled)
    main = fitted.main
    unscaled = Components(main.mean / scales, main.directions, scales, main.variances, main.shares)
    tree = round_tree(HierarchicalModel(unscaled, fitted.people))
    if limits is None:
        limits = np.array([SPEED_EXTRAPOLATION[t] * lines[gait].fastest for t, gait in enumerate(GAITS)])
    # Tables of events, and the frequencies of all timings: of the gaits as captured, then as balanced
    gaits = expand_gait_arrays(tree, round_to_single(standing), means, limits, num_frames=num_frames)
    tables = measure_gait_tables(gaits, HUMAN, HUMAN_LEG_M)
    events = round_to_single(tables.events)
    balanced = balance_gaits(gaits._replace(events=events, frequency=tables.stance), HUMAN, HUMAN_LEG_M)
    tables = measure_gait_tables(balanced, HUMAN, HUMAN_LEG_M)
    frequencies = {name: round_to_single(getattr(tables, name)) for name in TIMINGS}
    # Balanced at the cadence that is written: the model of a file is this one
    gaits = balance_gaits(gaits._replace(events=events, frequency=frequencies["stance"]), HUMAN, HUMAN_LEG_M)
    # The effectors' heights above the floor, feet flat on the ground
    flat = joint_positions(HUMAN, HUMAN.offsets[:1], SO3.identity(1, HUMAN.num_joints).wxyz)[0]
    # The model's own style is the even mixture of those who were chosen, or who showed both gaits, or of everybody.
    lent = np.array([[not table.rows_of(person, gait) for gait in GAITS] for person in people])
    both = [person for k, person in enumerate(people) if not lent[k].any()]
    named = [person for person in default_style if person in people] or both or list(people)
    return LocomotionModel(
        skeleton=HUMAN,
        leg_length_m=HUMAN_LEG_M,
        styles=people,
        default_style={person: 1.0 / len(named) for person in named},
        gaits=gaits,
        tree=tree,
        rest_heights=np.array([flat[HUMAN.index(name), 1] for name in EFFECTORS]) / HUMAN_LEG_M,
        lent=lent,
        frequencies=frequencies,
    )


def round_to_single(array: FloatArray) -> FloatArray:
    """Round to single precision, as a file holds it."""
    return array.astype(np.float32).astype(np.float64)
