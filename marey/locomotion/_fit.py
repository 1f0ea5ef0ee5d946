"""Train a locomotion model from captured clips."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, InputError, MissingFileError
from marey.lie import SO3
from marey.locomotion._fit_standing import standing_row
from marey.locomotion._gait_model import gait_arrays
from marey.locomotion._manifest import Manifest, load_manifest
from marey.locomotion._model import EFFECTORS, GAITS, LocomotionModel
from marey.locomotion._model_file import HUMAN_LEG, rounded
from marey.locomotion._segment import NUM_FRAMES, Rejected, clip_units
from marey.locomotion._timing import gait_tables
from marey.locomotion._units import Unit, mean_rotations, unit_rows
from marey.locomotion._units_lent import UnitTable, common_line, lent_units
from marey.models import HierarchicalPCA, Units
from marey.motion import Motion
from marey.skeleton import HUMAN, joint_positions

Progress = Callable[[int, int], None]  # clips done, clips in all
AnyPath = str | os.PathLike[str]

EXPLAINED: Final = (0.95, 0.999)  # of the main level; of the levels below, which cost next to nothing
REACH: Final = (1.25, 1.2)  # fastest walk and run over the fastest captured: the thesis went 1.7 and 1.4 times
CALM: Final = ("neck", "head", "left_wrist", "right_wrist", "left_foot", "right_foot")
CALM_WEIGHT: Final = 0.25  # of joints whose captured angles are mostly noise
LEG_PARTS: Final = ("pelvis", "hip", "knee", "ankle", "foot")


@dataclass(frozen=True, slots=True, eq=False)
class Captured:
    """What the clips gave."""

    units: tuple[Unit, ...]
    rejected: tuple[Rejected, ...]


def fit_locomotion(
    folder: AnyPath,
    manifest: Manifest | AnyPath | None = None,
    *,
    report: Progress | None = None,
    num_frames: int = NUM_FRAMES,
) -> LocomotionModel:
    """Train a model of walking and running.

    Args:
        folder: where the clips of the manifest are; folders below it are searched too.
        manifest: which clips train; that of the shipped model by default.
        report: called after each clip.
        num_frames: of a motion unit.

    Raises:
        MissingFileError: a clip of the manifest is not there.
        InputError: nobody walks, or nobody runs.
    """
    plan = manifest if isinstance(manifest, Manifest) else load_manifest(manifest)
    captured = capture_units(folder, plan, "train", report=report, num_frames=num_frames)
    return fit_units(captured.units, plan)


def capture_units(
    folder: AnyPath,
    plan: Manifest,
    split: str,
    *,
    report: Progress | None = None,
    num_frames: int = NUM_FRAMES,
) -> Captured:
    """Cut all clips of a split into units."""
    from marey.io import load

    files = clip_files(folder)
    units: list[Unit] = []
    rejected: list[Rejected] = []
    clips = plan.clips(split)
    for done, (group, clip) in enumerate(clips):
        if clip not in files:
            raise MissingFileError(f"{clip}.bvh", f"The manifest names it; look in {folder}.")
        motion: Motion = load(files[clip], rate_hz=group.rate_hz)
        found, left = clip_units(motion, group.subject, group.gait, num_frames=num_frames)
        units += found
        rejected += left
        if report is not None:
            report(done + 1, len(clips))
    return Captured(tuple(units), tuple(rejected))


def clip_files(folder: AnyPath) -> dict[str, Path]:
    """Motion files below a folder, by name without suffix."""
    root = Path(folder)
    if not root.is_dir():
        raise MissingFileError(str(folder), "Give the folder of the clips.")
    return {path.stem: path for path in sorted(root.rglob("*.bvh"))}


def fit_units(units: Sequence[Unit], plan: Manifest) -> LocomotionModel:
    """Train a model from units that were cut already."""
    for gait in GAITS:
        if not any(unit.gait == gait for unit in units):
            raise InputError(f"no unit is a {gait}", "A model needs walks and runs")
    means = mean_rotations(np.concatenate([unit.wxyz for unit in units]))
    table = unit_table(units, means)
    people = tuple(dict.fromkeys(table.subjects))
    lines = {gait: common_line(table, gait) for gait in GAITS}
    whole = table.joined(lent_units(table, lines, posture_columns()))
    standing = np.stack([standing_row([u for u in units if u.subject == person], means) for person in people])
    num_frames = units[0].num_frames
    whole = whole.joined([_standing_table(standing, people, num_frames)])
    tree = rounded(_fit_tree(whole, num_frames))
    limits = np.array([REACH[t] * lines[gait].fastest for t, gait in enumerate(GAITS)])
    gaits = gait_arrays(tree, standing.astype(np.float32).astype(np.float64), means, limits, num_frames=num_frames)
    tables = gait_tables(gaits, HUMAN, HUMAN_LEG)
    frequencies = {name: getattr(tables, name).astype(np.float32).astype(np.float64) for name in tables._fields[:3]}
    gaits = gaits._replace(frequency=frequencies["stance"], events=tables.events)
    lent = np.array([[not table.rows_of(person, gait) for gait in GAITS] for person in people])
    chosen = plan.default_style or tuple(p for k, p in enumerate(people) if not lent[k].any())
    default = {person: 1.0 / len(chosen) for person in chosen}
    info: dict[str, Any] = {"clips": sorted({unit.clip for unit in units}), "num_units": len(units)}
    return LocomotionModel(HUMAN, HUMAN_LEG, people, default, gaits, tree, rest_heights(), frequencies, lent, {}, info)


def unit_table(units: Sequence[Unit], means: FloatArray) -> UnitTable:
    """Rows of units, flattened."""
    rows = np.stack([unit_rows(unit.root, unit.wxyz, means).ravel() for unit in units])
    return UnitTable(
        rows,
        tuple(unit.subject for unit in units),
        tuple(unit.gait for unit in units),
        np.array([unit.speed_n for unit in units]),
    )


def _standing_table(standing: FloatArray, people: tuple[str, ...], num_frames: int) -> UnitTable:
    return UnitTable(np.tile(standing, (1, num_frames)), people, ("stand",) * len(people), np.zeros(len(people)))


def _fit_tree(units: UnitTable, num_frames: int) -> Any:
    from dataclasses import replace

    from marey.models import Components, HierarchicalModel

    scales = np.tile(column_weights(), num_frames)
    scaled = Units(units.table * scales, units.subjects, units.gaits, units.speeds)
    main_only = HierarchicalPCA(explained=EXPLAINED[0])
    from marey.models import principal_components

    count = principal_components(scaled.table, explained=main_only.explained).count
    fitted = HierarchicalPCA(explained=EXPLAINED[1], n_main=count).fit(scaled)
    main = fitted.main
    unscaled = Components(main.mean / scales, main.directions, scales, main.variances, main.shares)
    return replace(fitted, main=unscaled) if False else HierarchicalModel(unscaled, fitted.people)


def column_weights() -> FloatArray:
    """Weight ``(D,)`` of the columns of a unit in the components: noisy joints count less."""
    weights = np.ones(3 + 3 * HUMAN.num_joints)
    for name in CALM:
        j = HUMAN.index(name)
        weights[3 + 3 * j : 6 + 3 * j] = CALM_WEIGHT
    return weights


def posture_columns() -> FloatArray:
    """One for the columns ``(D,)`` of a person's posture, zero for root and legs."""
    columns = np.zeros(3 + 3 * HUMAN.num_joints)
    for j, name in enumerate(HUMAN.names):
        if not name.endswith(LEG_PARTS):
            columns[3 + 3 * j : 6 + 3 * j] = 1.0
    return columns


def rest_heights() -> FloatArray:
    """Heights ``(4,)`` of the effectors above the floor over leg length, feet flat on the ground."""
    positions = joint_positions(HUMAN, HUMAN.offsets[:1], SO3.identity(1, HUMAN.num_joints).wxyz)[0]
    return np.array([positions[HUMAN.index(name), 1] for name in EFFECTORS]) / HUMAN_LEG
