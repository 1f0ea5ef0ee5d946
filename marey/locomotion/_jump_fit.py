"""Fit jump models to captured trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, frozen
from marey.library import Library
from marey.locomotion._jump_capture import CapturedJump, find_leaps, find_standing_jumps, on_body
from marey.locomotion._jump_model import SHORTEST_FLIGHT_S, JumpModel
from marey.locomotion._jump_rows import captured_rows, steps_of
from marey.locomotion._jump_runup import GLARDON, RunUpLaw, fit_run_up
from marey.locomotion._jump_trials import KINDS, RATES, Loader, chosen_trials, loader_of, subject_of
from marey.locomotion._segment import performer_leg
from marey.locomotion._units import mean_rotations
from marey.models import principal_components
from marey.motion import mirror
from marey.skeleton import HUMAN, Skeleton

EXPLAINED: Final = 0.97  # [-] of the variance of the rows; the thesis keeps 80 % of jumps
RIDGE: Final = 0.15  # [-] pulls personal offsets to the mean: one jump of a person counts for less than the law
OWN_LEGS: Final = 0.4  # [-] how much of their own legs those have who never leapt
LEG_PARTS: Final = ("pelvis", "hip", "knee", "ankle", "foot")
SHORTEST_LEAP_S: Final = 0.1  # [s] in the air, of leaps that are made
LEAP_S: Final = 0.2  # [s] who is in the air for longer leaps, for less he steps or runs
HIGHER: Final = 1.2  # [-] longest time in the air over the longest captured
WALKED_MPS: Final = 1.6  # [m/s] who leaps at less came walking
REACH: Final = {"walk": (0.33, 1.4), "run": (0.55, 1.15), "standing": (0.0, 1.1)}  # shortest l_n; part of the longest
STEP_LENGTHS: Final = (0.1, 0.9)  # [-] l_n of steps of walks that may stand at the short end


def fit_jumps(
    source: str | Path | Library | Loader,
    manifest: Mapping[str, Iterable[str]] | None = None,
    skeleton: Skeleton = HUMAN,
    *,
    means: FloatArray | None = None,
    rates: Mapping[str, float] = RATES,
    report: Callable[[str], None] | None = None,
) -> dict[str, JumpModel]:
    """Models of walking leaps, running leaps and standing jumps.

    Args:
        source: folder of trials, library, or a function that gives the trial of a name.
        manifest: names of trials by kind; :data:`TRIALS` by default.
        skeleton: the canonical human.
        means: ``(J, 4)`` the joints' mean rotations of the gait model; of the jumps themselves by default.
        rates: true frames per second of trials or subjects whose files are wrong.
        report: is told what was found, a line at a time.
    """
    load, tell = loader_of(source, rates), report or _silent
    jumps = {kind: captured_jumps(load, kind, names, skeleton, tell) for kind, names in chosen_trials(manifest).items()}
    if means is None:
        poses = [jump.motion.rotations.wxyz[::6] for some in jumps.values() for jump in some]
        means = mean_rotations(np.concatenate(poses))
    return {kind: fit_kind(kind, jumps[kind], means, skeleton) for kind in KINDS}


def _silent(_: str) -> None:
    return None


def captured_jumps(
    load: Loader, kind: str, names: Iterable[str], skeleton: Skeleton, tell: Callable[[str], None] = _silent
) -> list[CapturedJump]:
    """All jumps of a kind in some trials, on the model's body."""
    found: list[CapturedJump] = []
    for name in names:
        body = on_body(load(name), skeleton)
        jumps = find_standing_jumps(body) if kind == "standing" else find_leaps(body, with_steps=kind == "walk")
        for jump in jumps:
            jump = replace(jump, subject=subject_of(name), clip=name)
            reason = _fault(jump, kind)
            tell(f"{kind} {name}: {jump.length_m:.2f} m, {jump.flight_s:.3f} s in the air, {reason or 'taken'}")
            if reason is None:
                found.append(jump)
    if not found:
        raise InputError(f"no jump of kind '{kind}' in the trials given", "Name trials that hold some")
    return found


def _fault(jump: CapturedJump, kind: str) -> str | None:
    """Why a jump is left out, or nothing."""
    length_n = jump.length_m / performer_leg(jump.motion.skeleton)
    spans = np.diff(jump.knots)
    if kind == "standing":
        return None if -0.35 < length_n and spans[0] > 0.1 and spans[-1] > 0.2 else "not from rest to rest"
    if length_n < STEP_LENGTHS[0]:
        return "too short"
    if spans[0] < 0.08 or spans[-1] < 0.15:
        return "cut off"
    if kind == "walk" and jump.flight_s < LEAP_S and (length_n > STEP_LENGTHS[1] or jump.flight_s > 0.05):
        return "a run"
    if kind == "walk" and jump.speed_mps > WALKED_MPS:
        return "too fast for a walk"
    if kind == "run" and jump.flight_s < 0.06:
        return "hardly in the air"
    return None


def fit_kind(kind: str, jumps: list[CapturedJump], means: FloatArray, skeleton: Skeleton) -> JumpModel:
    """Fit one kind: principal components of rows, shared slopes, personal offsets, laws of timing and events."""
    leg_m, steps = performer_leg(skeleton), steps_of(kind)
    if kind == "standing":
        jumps = [*jumps, *(replace(j, motion=mirror(j.motion)) for j in jumps)]
    people = tuple(dict.fromkeys(jump.subject for jump in jumps))
    table = np.stack([captured_rows(jump, means, steps).ravel() for jump in jumps])
    space = principal_components(table, explained=EXPLAINED)
    at = np.array([[jump.length_m / leg_m, jump.flight_s] for jump in jumps])
    is_leap = at[:, 1] >= (SHORTEST_FLIGHT_S if kind == "standing" else LEAP_S)
    centre = at[is_leap].mean(axis=0)
    who = np.array([people.index(jump.subject) for jump in jumps])
    offsets, slopes = _pooled(space.scores(table), at - centre, who, is_leap)
    reach = REACH[kind]
    longest = at[is_leap, 0].max()
    leapers = np.array([is_leap[who == k].any() for k in range(len(people))])
    own = _lent_legs(offsets @ space.lifting, leapers)
    offsets, slopes, lift = _condensed(own, slopes @ space.lifting)
    arrays = {
        "shares": np.full(len(people), 1.0 / len(people)),
        "mean": space.mean,
        "lift": lift,
        "offsets": offsets,
        "slopes": slopes,
        "centre": centre,
        **_timing(kind, jumps, at, is_leap),
        "captured": np.array([at[is_leap, 0].min(), longest]),
        "limits": np.array([reach[0], reach[1] * longest]),
    }
    held = {name: frozen(array, name=name) for name, array in arrays.items()}
    law = _run_up(kind, jumps, at, is_leap, leg_m)
    model = JumpModel(kind=kind, people=people, run_up=law, captured_run_up=law, means=means, **held)
    return replace(model, run_up=_own_run_up(model))


def _lent_legs(offsets: FloatArray, leapers: BoolArray) -> FloatArray:
    """Offsets ``(K, p)`` in which who never leapt has his own posture, but legs half-way to those of who did.

    A walker's long stride would otherwise make up the whole length of a short leap, which would not leave the ground.
    """
    is_leg = np.array([True] * 3 + [name.endswith(LEG_PARTS) for name in HUMAN.names for _ in range(3)])
    common = offsets[leapers].mean(axis=0)
    legs = np.tile(is_leg, offsets.shape[1] // len(is_leg)) & ~leapers[:, None]
    return np.where(legs, (1.0 - OWN_LEGS) * common + OWN_LEGS * offsets, offsets)


def _condensed(offsets: FloatArray, slopes: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Offsets ``(K, p)`` and slopes ``(2, p)`` in as few components as they have rows: scores, scores and lift."""
    u, s, lift = np.linalg.svd(np.concatenate([offsets, slopes]), full_matrices=False)
    scores = u * s
    return scores[: len(offsets)], scores[len(offsets) :], lift


def _pooled(scores: FloatArray, at: FloatArray, who: FloatArray, is_leap: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Personal offsets ``(K, C)`` and shared slopes ``(2, C)``; leaps weigh as much together as all the rest."""
    count = int(who.max()) + 1
    design = np.concatenate([np.eye(count)[who], np.ones((len(who), 1)), at], axis=1)
    weight = np.where(is_leap, 0.5 / max(is_leap.sum(), 1), 0.5 / max((~is_leap).sum(), 1)) * len(who)
    root = np.sqrt(weight)[:, None]
    pull = np.sqrt(RIDGE) * np.eye(count, count + 3)
    left = np.concatenate([design * root, pull])
    right = np.concatenate([scores * root, np.zeros((count, scores.shape[1]))])
    solved = np.linalg.lstsq(left, right, rcond=None)[0]
    return solved[:count] + solved[count], solved[count + 1 :]


def _timing(kind: str, jumps: list[CapturedJump], at: FloatArray, is_leap: BoolArray) -> dict[str, FloatArray]:
    spans = np.array([np.diff(jump.knots) for jump in jumps])
    middle = spans.shape[1] // 2
    spans = np.maximum(np.delete(spans, middle, axis=1), 0.02)
    marks = np.array([_marks(jump) for jump in jumps])
    return {
        "pieces": _planes(at, np.log(spans), is_leap),
        "piece_limits": np.stack([spans.min(axis=0), spans.max(axis=0)]),
        "marks": _planes(at, marks, is_leap),
        "mark_limits": np.stack([marks[is_leap].min(axis=0), marks[is_leap].max(axis=0)]),
        "flight_law": _line(at[is_leap, 0], at[is_leap, 1], 0.2),
        "flight_speed": _flight_speed(kind, jumps, at, is_leap),
        "flight_limits": np.array(
            [at[is_leap, 1].min() if kind == "standing" else SHORTEST_LEAP_S, HIGHER * at[:, 1].max()]
        ),
    }


def _line(lengths: FloatArray, values: FloatArray, slope: float) -> FloatArray:
    """Constant and slope ``(2,)`` of values by length; of fewer than four jumps with the slope given."""
    fitted = np.polyfit(lengths, values, 1) if len(lengths) > 3 else (slope, np.mean(values - slope * lengths))
    return np.array([fitted[1], fitted[0]])


def _flight_speed(kind: str, jumps: list[CapturedJump], at: FloatArray, is_leap: BoolArray) -> FloatArray:
    """Constant and slope [1/s] of the speed of flights by length."""
    speeds = np.array([jump.flight_mps for jump in jumps]) / performer_leg(jumps[0].motion.skeleton)
    slope = GLARDON[kind].slope if kind in GLARDON else 1.0
    return _line(at[is_leap, 0], speeds[is_leap], slope)


def _planes(at: FloatArray, values: FloatArray, is_leap: BoolArray) -> FloatArray:
    """Constant and slopes by length and flight ``(3, n)`` of values ``(m, n)``; leaps weigh as much as the rest."""
    weight = np.sqrt(np.where(is_leap, 0.5 / max(is_leap.sum(), 1), 0.5 / max((~is_leap).sum(), 1)))[:, None]
    design = np.concatenate([np.ones((len(at), 1)), at], axis=1)
    return np.linalg.lstsq(design * weight, values * weight, rcond=None)[0]


def _marks(jump: CapturedJump) -> FloatArray:
    """Toe strike and heel off as parts of the take-off stance, toe strike, heel off and toe off of the landing piece."""
    rhs, rts, rho, rto, lhs, lts, lho, lto = jump.events
    end = jump.knots[-1]
    first, last = max(rto - rhs, 1e-6), max(end - lhs, 1e-6)
    return np.clip([(rts - rhs) / first, (rho - rhs) / first, *((t - lhs) / last for t in (lts, lho, lto))], 0.0, 1.0)


def _own_run_up(model: JumpModel) -> RunUpLaw:
    """The law of the jumps that a model makes, within its limits; the captured jumps give the tolerance."""
    lengths = np.linspace(*model.limits, 9)
    speeds = np.array([model.unit(length).mean_speed_mps for length in lengths]) / model.leg_length_m
    law = fit_run_up(lengths, speeds)
    return replace(law, tolerance=max(law.tolerance, model.captured_run_up.tolerance))


def _run_up(kind: str, jumps: list[CapturedJump], at: FloatArray, is_leap: BoolArray, leg_m: float) -> RunUpLaw:
    speeds = np.array([jump.speed_mps for jump in jumps]) / leg_m
    few = int(is_leap.sum()) < 4
    return fit_run_up(at[is_leap, 0], speeds[is_leap], GLARDON[kind].slope if few else None)
