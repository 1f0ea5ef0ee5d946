"""Fit jump models to captured trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, frozen
from marey.library import Library
from marey.locomotion._jump_capture import CapturedJump, find_leaps, find_standing_jumps, retarget_to_body
from marey.locomotion._jump_laws import (
    MIN_LEAP_FLIGHT_S,
    JumpTable,
    condense_components,
    fit_captured_run_up,
    fit_path_speed,
    fit_poses,
    fit_timing,
    share_leg_offsets,
)
from marey.locomotion._jump_model import JumpModel
from marey.locomotion._jump_rows import canonical_steps, sample_captured_jump
from marey.locomotion._jump_runup import RunUpLaw, fit_run_up
from marey.locomotion._jump_trials import KINDS, TRIAL_RATES_HZ, TrialLoader, choose_trials, make_loader, trial_subject
from marey.locomotion._segment import measure_leg_length
from marey.locomotion._units import joint_means
from marey.models import principal_components
from marey.motion import mirror
from marey.skeleton import HUMAN, Skeleton

JUMP_VARIANCE_EXPLAINED: Final = 0.97  # [-] of the variance of the rows; the thesis keeps 80 % of jumps
MAX_WALK_APPROACH_MPS: Final = 1.6  # [m/s] who leaps at less came walking
LENGTH_LIMITS: Final = {
    "walk": (0.42, 1.4),
    "run": (0.55, 1.15),
    "standing": (0.0, 1.1),
}  # shortest l_n; part of the longest
EXTRAPOLATION_FACTOR: Final = 1.05  # [-] how far poses go on beyond the longest and highest captured
STEP_LENGTHS: Final = (0.1, 0.9)  # [-] l_n of steps of walks that may stand at the short end
STEP_FLIGHTS_S: Final = (0.05, 0.06)  # longest of a step in walking, shortest of one in running
FALLS_MPS2: Final = (-13.0, -6.0)  # what falls otherwise does not fly, or its rate is wrong; short flights tell ±4
NUM_LENGTHS: Final = 9  # jumps made to measure the model's own run-up


def fit_jumps(
    source: str | Path | Library | TrialLoader,
    manifest: Mapping[str, Iterable[str]] | None = None,
    skeleton: Skeleton = HUMAN,
    *,
    means: FloatArray | None = None,
    rates: Mapping[str, float] = TRIAL_RATES_HZ,
    report: Callable[[str], None] | None = None,
) -> dict[str, JumpModel]:
    """Models of walking leaps, running leaps and standing jumps, by kind.

    Args:
        source: folder of trials, library, or a function that gives the trial of a name.
        manifest: names of trials by kind; :data:`TRIALS` by default.
        skeleton: the canonical human, on which jumps are measured.
        means: ``(J, 4)`` the joints' mean rotations of the gait model; of the jumps themselves by default.
        rates: true frames per second of trials or subjects whose files are wrong.
        report: is told what was found, a line at a time.
    """
    load, tell = make_loader(source, rates), report or _ignore_progress
    trials = choose_trials(manifest)
    jumps = {kind: capture_jumps(load, kind, trials[kind], tell, skeleton=skeleton) for kind in KINDS}
    if means is None:
        poses = [jump.motion.rotations.wxyz[::6] for some in jumps.values() for jump in some]
        means = joint_means(np.concatenate(poses))
    return {kind: fit_kind(kind, jumps[kind], means) for kind in KINDS}


def _ignore_progress(_: str) -> None:
    return None


def capture_jumps(
    load: TrialLoader,
    kind: str,
    names: Iterable[str],
    tell: Callable[[str], None] = _ignore_progress,
    *,
    skeleton: Skeleton = HUMAN,
) -> list[CapturedJump]:
    """All jumps of a kind in some trials, on the model's body."""
    found: list[CapturedJump] = []
    for name in names:
        body = retarget_to_body(load(name), skeleton)
        jumps = find_standing_jumps(body) if kind == "standing" else find_leaps(body, with_steps=kind == "walk")
        for jump in jumps:
            reason = find_jump_fault(jump, kind)
            tell(f"{kind} {name}: {jump.length_m:.2f} m, {jump.flight_s:.3f} s in the air, {reason or 'taken'}")
            if reason is None:
                found.append(replace(jump, subject=trial_subject(name), clip=name))
    if not found:
        raise InputError(f"no jump of kind '{kind}' in the trials given", "Name trials that hold some")
    return found


def find_jump_fault(jump: CapturedJump, kind: str) -> str | None:
    """Why a jump is left out, or nothing."""
    length_n = jump.length_m / measure_leg_length(jump.motion.skeleton)
    first, last = float(jump.knots[1]), float(jump.knots[-1] - jump.knots[-2])
    if jump.flight_s >= MIN_LEAP_FLIGHT_S and not FALLS_MPS2[0] < jump.fall_mps2 < FALLS_MPS2[1]:
        return f"falls at {-jump.fall_mps2:.1f} m/s²"
    if kind == "standing":
        return None if length_n > -0.35 and first > 0.1 and last > 0.2 else "not from rest to rest"
    if length_n < STEP_LENGTHS[0]:
        return "too short"
    if first < 0.08 or last < 0.15:
        return "cut off"
    if kind == "run":
        return "hardly in the air" if jump.flight_s < STEP_FLIGHTS_S[1] else None
    if jump.flight_s >= MIN_LEAP_FLIGHT_S:
        return "too fast for a walk" if jump.speed_mps > MAX_WALK_APPROACH_MPS else None
    return "a run" if length_n > STEP_LENGTHS[1] or jump.flight_s > STEP_FLIGHTS_S[0] else None


def fit_kind(kind: str, jumps: list[CapturedJump], means: FloatArray) -> JumpModel:
    """Fit one kind: principal components of rows, shared slopes, personal offsets, laws of timing and events.

    Standing jumps are joined by their mirror images, so that both sides do alike.
    """
    if kind == "standing":
        jumps = [*jumps, *(replace(jump, motion=mirror(jump.motion)) for jump in jumps)]
    table = JumpTable.from_jumps(kind, jumps)
    centre = table.at[table.is_leap].mean(axis=0)
    rows = np.stack([sample_captured_jump(jump, means, canonical_steps(kind)).ravel() for jump in jumps])
    space = principal_components(rows, explained=JUMP_VARIANCE_EXPLAINED)
    offsets, slopes = fit_poses(space.scores(rows), table, centre)
    own = share_leg_offsets(offsets @ space.lifting, table.leapers)
    offsets, slopes, lift = condense_components(own, slopes @ space.lifting)
    shortest, part = LENGTH_LIMITS[kind]
    captured = np.array([table.lengths.min(), table.lengths.max()])
    poses = {"mean": space.mean, "lift": lift, "offsets": offsets, "slopes": slopes, "centre": centre, "means": means}
    poses["pose_limits"] = np.stack([table.at.min(axis=0), EXTRAPOLATION_FACTOR * table.at.max(axis=0)])
    range_n = {"captured": captured, "limits": np.array([shortest, part * captured[1]])}
    shares = np.full(len(table.people), 1.0 / len(table.people))
    arrays = {"shares": shares, **poses, **fit_timing(table), **range_n}
    law, held = fit_captured_run_up(table), {name: frozen(array, name=name) for name, array in arrays.items()}
    model = JumpModel(
        kind=kind, people=table.people, run_up=law, captured_run_up=law, frequency_law=np.array([1.0, 0.0]), **held
    )
    frequency = frozen(fit_frequency_law(model, fit_path_speed(table)), 2, name="frequency_law")
    return replace(model, run_up=fit_synthesised_run_up(model), frequency_law=frequency)


def fit_frequency_law(model: JumpModel, path_speed: RunUpLaw) -> FloatArray:
    r"""Jumps per second: constant [Hz] and slope by length ``(2,)``, [Glardon2005]_ §III.1.3.2.

    .. math:: F(l_n) = \bar s(l_n) \big/ \sum_i \|p_i - p_{i-1}\| \approx a\,l_n + b

    over the root's path in the model's own jumps. The thesis plots durations as lines and fits frequencies; so do we.
    """
    lengths = np.linspace(float(model.limits[0]), float(model.limits[1]), NUM_LENGTHS)
    paths = [np.linalg.norm(np.diff(model.unit(float(n)).rows[:, :3], axis=0), axis=1).sum() for n in lengths]
    slope, constant = np.polyfit(lengths, [path_speed.speed(float(n)) for n in lengths] / np.array(paths), 1)
    return np.array([constant, slope])


def fit_synthesised_run_up(model: JumpModel) -> RunUpLaw:
    """The law of the jumps that a model makes, within its limits; the captured jumps give the tolerance."""
    lengths = np.linspace(float(model.limits[0]), float(model.limits[1]), NUM_LENGTHS)
    speeds = np.array([model.unit(float(length)).mean_speed_mps for length in lengths]) / model.leg_length_m
    law = fit_run_up(lengths, speeds)
    return replace(law, tolerance=max(law.tolerance, model.captured_run_up.tolerance))
