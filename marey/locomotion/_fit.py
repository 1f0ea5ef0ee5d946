"""Train a locomotion model from captured clips."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.lie import SO3
from marey.locomotion._fit_capture import CapturedUnits, ClipSource, Progress, capture_units
from marey.locomotion._fit_flight import RUN_INDEX, fit_cadence_factors, fit_flight_heights
from marey.locomotion._fit_standing import build_standing_rows
from marey.locomotion._fit_tree import EXPLAINED, fit_tree, flatten_units, posture_columns
from marey.locomotion._gait_model import expand_gait_arrays
from marey.locomotion._jump_fit import fit_jumps
from marey.locomotion._manifest import Manifest, load_manifest
from marey.locomotion._model import EFFECTORS, GAITS, TIMINGS, GaitArrays, LocomotionModel
from marey.locomotion._model_file import HUMAN_LEG_M, round_tree
from marey.locomotion._segment import NUM_FRAMES
from marey.locomotion._timing import measure_gait_tables
from marey.locomotion._units import MotionUnit, find_far_rotations, joint_means
from marey.locomotion._units_lent import UnitTable, fit_shared_speed_law, prior_units
from marey.skeleton import HUMAN, joint_positions

SPEED_EXTRAPOLATION: Final = (
    1.25,
    1.1,
)  # fastest walk and run over the fastest captured: the thesis went 1.7 and 1.4 times


def fit_locomotion(
    source: ClipSource,
    manifest: Manifest | str | os.PathLike[str] | None = None,
    *,
    report: Progress | None = None,
    num_frames: int = NUM_FRAMES,
    jumps: bool = True,
) -> LocomotionModel:
    """Train a model of walking, running and jumping ([Glardon2005]_ part II).

    Args:
        source: folder of the clips, library, or a function that gives the clip of a name.
        manifest: which clips train; that of the shipped model by default.
        report: called after each clip of the gaits.
        num_frames: of a motion unit.
        jumps: fit jumps too, on the trials of :data:`TRIALS`.

    Raises:
        MissingFileError: a clip of the manifest is not there.
        InputError: nobody walks, or nobody runs.
    """
    plan = manifest if isinstance(manifest, Manifest) else load_manifest(manifest)
    captured = capture_units(source, plan, "train", report=report, num_frames=num_frames)
    model = fit_units(captured.units, plan.default_style)
    facts = {**summarise_capture(captured), "audit": audit_rotations(captured.units, model.gaits.means)}
    facts["labels"] = {name: text for name, text in plan.labels.items() if name in model.styles}
    model = replace(model, info=facts)
    if not jumps:
        return model
    return replace(model, jumps=fit_jumps(source, skeleton=HUMAN, means=model.gaits.means))


def summarise_capture(captured: CapturedUnits) -> dict[str, Any]:
    """What became of the clips, as plain data for the model's file."""
    return {
        "clips": sorted({unit.clip for unit in captured.units}),
        "num_units": len(captured.units),
        "rejected": [f"{r.clip} {r.start}-{r.stop}: {r.reason}" for r in captured.rejected],
        "notes": list(captured.notes),
    }


def audit_rotations(units: Sequence[MotionUnit], means: FloatArray) -> list[str]:
    """Joints of the units for which lines may not replace arcs, one sentence each."""
    table = flatten_units(units, means).table.reshape(len(units), units[0].num_frames, -1)
    found = find_far_rotations(table, HUMAN.names)
    return [f"{name}: up to {np.rad2deg(a):.0f}°, axes {np.rad2deg(b):.0f}° apart" for name, (a, b) in found.items()]


def fit_units(
    units: Sequence[MotionUnit], default_style: Sequence[str] = (), *, explained: float = EXPLAINED[0]
) -> LocomotionModel:
    """Train a model of gaits from units that were cut already.

    Args:
        units: walks and runs of any number of people.
        default_style: whose even mixture is the model's own style; all who showed both gaits by default.
        explained: share of the variance that the main components keep.
    """
    for gait in GAITS:
        if not any(unit.gait == gait for unit in units):
            raise InputError(f"no unit is a {gait}", "A model needs walks and runs")
    means = joint_means(np.concatenate([unit.wxyz for unit in units]))
    table = flatten_units(units, means)
    people = tuple(dict.fromkeys(table.subjects))
    standing = build_standing_rows(units, people, means)
    num_frames = units[0].num_frames
    lines = {gait: fit_shared_speed_law(table, gait) for gait in GAITS}
    at_rest = {person: np.tile(standing[k], num_frames) for k, person in enumerate(people)}
    whole = table.append_tables([*prior_units(table, lines, at_rest, posture_columns()), _make_standing_table(at_rest)])
    tree = round_tree(fit_tree(whole, explained=explained))
    limits = np.array([SPEED_EXTRAPOLATION[t] * lines[gait].fastest for t, gait in enumerate(GAITS)])
    gaits, heights = _build_gaits(tree, round_to_single(standing), means, limits, num_frames)
    lent = np.array([[not table.rows_of(person, gait) for gait in GAITS] for person in people])
    return LocomotionModel(
        skeleton=HUMAN,
        leg_length_m=HUMAN_LEG_M,
        styles=people,
        default_style=_default_style(people, lent, default_style),
        tree=tree,
        rest_heights=compute_rest_heights(),
        lent=lent,
        heights=heights,
        **_add_timing(gaits),
    )


def _default_style(people: Sequence[str], lent: FloatArray, chosen: Sequence[str]) -> dict[str, float]:
    """Even weights of those who were chosen, or who showed both gaits, or of everybody."""
    both = [person for k, person in enumerate(people) if not lent[k].any()]
    named = [person for person in chosen if person in people] or both or list(people)
    return {person: 1.0 / len(named) for person in named}


def _build_gaits(
    tree: Any, standing: FloatArray, means: FloatArray, limits: FloatArray, num_frames: int
) -> tuple[GaitArrays, FloatArray]:
    """Arrays of the gaits, flights corrected, and the correction of the root's height in runs."""
    raw = expand_gait_arrays(tree, standing, means, limits, num_frames=num_frames)
    heights = round_to_single(fit_flight_heights(raw, HUMAN, HUMAN_LEG_M))
    return expand_gait_arrays(tree, standing, means, limits, num_frames=num_frames, heights=heights), heights


def _add_timing(gaits: GaitArrays) -> dict[str, Any]:
    """Arrays with their tables of events and frequencies, and the frequencies of all timings."""
    tables = measure_gait_tables(gaits, HUMAN, HUMAN_LEG_M)
    stance = tables.stance.copy()
    stance[:, RUN_INDEX] *= fit_cadence_factors(gaits, HUMAN, HUMAN_LEG_M)
    found = tables._replace(stance=stance)
    frequencies = {name: round_to_single(getattr(found, name)) for name in TIMINGS}
    timed = gaits._replace(frequency=frequencies["stance"], events=round_to_single(tables.events))
    return {"gaits": timed, "frequencies": frequencies}


def round_to_single(array: FloatArray) -> FloatArray:
    """Round to single precision, as a file holds it."""
    return array.astype(np.float32).astype(np.float64)


def _make_standing_table(at_rest: dict[str, FloatArray]) -> UnitTable:
    people = tuple(at_rest)
    return UnitTable(np.stack(list(at_rest.values())), people, ("stand",) * len(people), np.zeros(len(people)))


def compute_rest_heights() -> FloatArray:
    """Heights ``(4,)`` of the effectors above the floor over leg length, feet flat on the ground."""
    positions = joint_positions(HUMAN, HUMAN.offsets[:1], SO3.identity(1, HUMAN.num_joints).wxyz)[0]
    return np.array([positions[HUMAN.index(name), 1] for name in EFFECTORS]) / HUMAN_LEG_M
