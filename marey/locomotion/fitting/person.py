"""The model read backwards: how fast, in which gait and in whose style somebody moves ([Glardon2005]_ §III.1.5.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, Result, UnknownNameError
from marey.locomotion.fitting.fit import fit_units
from marey.locomotion.fitting.quality import motion_distance, rms_degrees
from marey.locomotion.fitting.trials import reject_outliers
from marey.locomotion.model.locomotion_model import LocomotionModel, level_runs, load_model
from marey.locomotion.units.gait_unit import (
    MotionUnit,
    RejectedCycle,
    level_feet,
    rotations_from_rows,
    segment_clip,
    unit_rows,
)
from marey.motion import Motion

METHODS: Final = ("least-squares", "mahalanobis")
NUM_SPEEDS: Final = 60  # of the grid on which the search starts
SWEEPS: Final = 4  # of speed and style in turn
SUM_WEIGHT: Final = 1e3  # [-] of the equation that weights sum to one


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecoveredParameters(Result):
    """Parameters estimated from a cycle, and the error of the model."""

    speed_mps: float  # on the performer's own legs
    run: float  # 0 walk, 1 run
    style: Mapping[str, float]  # weights that sum to one; zeros left out
    error_deg: float  # rms over the ten joints of the metrics
    measured_speed_mps: float  # from the path of the root, for comparison
    residual: FloatArray  # (N, D) what the mixture does not explain


def capture_first_unit(motion: Motion, model: LocomotionModel) -> MotionUnit:
    """Cut the first regular cycle of a clip.

    Raises:
        InputError: the clip holds no straight, regular cycle.
    """
    units, _, _ = segment_clip(motion, "somebody", num_frames=model.gaits.base.shape[2])
    if units:
        return level_feet(units[:1], model.leg_length_m)[0]
    raise InputError(f"clip '{motion.name}' holds no regular cycle", "Give one with two strides straight ahead")


def recover_parameters(motion: Motion | MotionUnit, model: LocomotionModel | None = None) -> RecoveredParameters:
    r"""Find speed, gait and style of a clip's first cycle.

    .. math:: \min_{s, w} \|\alpha - \textstyle\sum_k w_k\,\alpha^{(k)}(s)\|, \qquad w \ge 0,\ \sum w = 1

    over the scores of the main components. A mixture of people can pass for another speed, so the search starts from
    the best single person on a grid of speeds, then fits the weights and the speed in turn.

    Args:
        motion: a clip, or a unit that was cut already.
        model: the shipped one by default.
    """
    model = load_model() if model is None else model
    unit = capture_first_unit(motion, model) if isinstance(motion, Motion) else motion
    seen = unit_rows(unit.root, unit.wxyz, model.gaits.means)
    goal = model.tree.main.scores(seen.ravel())
    found = min((_search_parameters(model, goal, float(run)) for run in (0, 1)), key=lambda part: part[2])
    speed_n, weights, _, run = found
    rows = model.gaits.row(speed_n, run, weights)
    error = motion_distance(unit.wxyz, rotations_from_rows(rows, model.gaits.means))
    scale = float(np.sqrt(unit.leg_length_m * model.leg_length_m))
    style = {name: float(w) for name, w in zip(model.styles, weights, strict=True) if w > 1e-6}
    return RecoveredParameters(speed_n * scale, run, style, rms_degrees([error]), unit.speed_mps, seen - rows)


def fit_style_weights(
    motion: Motion | MotionUnit,
    model: LocomotionModel | None = None,
    *,
    method: str = "least-squares",
    run: bool | None = None,
) -> dict[str, float]:
    r"""Weights of the styles that come nearest to somebody of whom one cycle is known.

    Args:
        motion: a clip, or a unit that was cut already; its speed is measured.
        model: the shipped one by default.
        method: ``"least-squares"`` over weights that are not negative, or ``"mahalanobis"``, the inverse distances
            :math:`w_i \propto d_i^{-1}` of [Glardon2005]_ §III.1.5.2 (whose print has the weights grow with distance).
        run: whether the cycle is a run; by default what fits better.
    """
    if method not in METHODS:
        raise UnknownNameError("method", method, "personify", METHODS)
    model = load_model() if model is None else model
    unit = capture_first_unit(motion, model) if isinstance(motion, Motion) else motion
    main = model.tree.main
    goal = main.scores(unit_rows(unit.root, unit.wxyz, model.gaits.means).ravel())
    tried: list[tuple[float, FloatArray]] = []
    for gait in (0.0, 1.0) if run is None else (float(run),):
        people = _people_scores(model, unit.speed_n, gait)
        if method == "least-squares":
            weights = _solve_style_weights(people, goal)
        else:
            # Inverse Mahalanobis distances, one over the other
            far = np.linalg.norm((people - goal) / np.sqrt(main.variances), axis=1)
            weights = 1.0 / np.maximum(far, 1e-9)
            weights /= weights.sum()
        tried.append((float(np.linalg.norm(weights @ people - goal)), weights))
    weights = min(tried, key=lambda one: one[0])[1]
    return {name: float(w) for name, w in zip(model.styles, weights, strict=True) if w > 1e-6}


def fit_person(
    motions: Motion | Sequence[Motion], model: LocomotionModel | None = None, *, name: str, amount: float = 1.0
) -> LocomotionModel:
    """Return the model with one more person, fitted to all cycles of some clips, as its default style.

    What the clips show is the person's own; how the gait changes with speed, and a gait that they do not show, are
    lent by the people of the model, in the person's posture.

    Args:
        motions: one clip or more of the same person.
        model: the shipped one by default.
        name: of the new style.
        amount: more than one exaggerates what is different from the model's default style.

    Raises:
        InputError: no clip holds a regular cycle; the message says what was wrong with those there are.
    """
    model = load_model() if model is None else model
    units: list[MotionUnit] = []
    rejected: list[RejectedCycle] = []
    clips = [motions] if isinstance(motions, Motion) else list(motions)
    for motion in clips:
        found, left, _ = segment_clip(motion, name, None, num_frames=model.gaits.base.shape[2])
        units, rejected = units + found, rejected + left
    if not units:
        reasons = "; ".join(dict.fromkeys(cycle.reason for cycle in rejected)) or "no two straight strides"
        named = ", ".join(f"'{motion.name}'" for motion in clips)
        raise InputError(f"no regular cycle in {named}: {reasons}", "Give a clip with two strides straight ahead")
    kept, _ = reject_outliers(level_feet(units, model.leg_length_m))
    alone = fit_units(kept, prior=model, limits=model.gaits.limits)
    own = {part: getattr(alone.gaits, part)[0] for part in ("base", "lift", "slowest", "events")}
    usual, gaits = model.weights(), model.gaits
    for part in ("base", "lift"):
        common = np.tensordot(usual, getattr(gaits, part), axes=1)
        own[part] = common + amount * (own[part] - common)
    frequencies = {timing: table[0] for timing, table in alone.frequencies.items()}
    more = _append_style(model, name, own, frequencies, alone.lent[0])
    facts = {**model.info, "people": {**model.info.get("people", {}), name: sorted({unit.clip for unit in kept})}}
    return replace(more, default_style={name: 1.0}, info=facts)


def add_style(
    model: LocomotionModel,
    name: str,
    style: Mapping[str, float],
    residual: FloatArray | None = None,
    *,
    amount: float = 1.0,
) -> LocomotionModel:
    """Return the model with one more style: a mixture, and what it left unexplained of a captured cycle.

    Args:
        model: any model.
        name: of the new style.
        style: weights of the styles it is made of.
        residual: ``(N, D)``, as :func:`recover_parameters` gives it; it is added to walk and run alike.
        amount: how much of the residual to add; more than one exaggerates the person.
    """
    # Tables of the new style are the mixture's; what a captured cycle has beside it is added to the unit itself.
    gaits, w = model.gaits, model.weights(style)
    own: dict[str, FloatArray] = {
        part: np.asarray(np.tensordot(w, getattr(gaits, part), axes=1), dtype=np.float64)
        for part in ("base", "lift", "slowest", "events")
    }
    if residual is not None:
        own["base"] = own["base"] + amount * residual
        own["lift"][:, 1] -= amount * residual
    frequencies = {timing: np.tensordot(w, table, axes=1) for timing, table in model.frequencies.items()}
    return _append_style(model, name, own, frequencies, np.array([False, False]))


def _append_style(
    model: LocomotionModel,
    name: str,
    own: Mapping[str, FloatArray],
    frequencies: Mapping[str, FloatArray],
    lent: BoolArray,
) -> LocomotionModel:
    """The model with one more style of given arrays; its laws are those of every style."""
    if name in model.styles:
        raise InputError(f"there is a style '{name}' already", "Choose another name")
    gaits = model.gaits
    parts = {**own, **{part: getattr(gaits, part)[0] for part in ("standing", "slope", "offset", "has_gait")}}
    alone = {**{part: value[None] for part, value in parts.items()}, "frequency": frequencies["stance"][None]}
    style = level_runs(gaits._replace(**alone), model.skeleton, model.leg_length_m)
    added = {part: np.concatenate([getattr(gaits, part), getattr(style, part)]) for part in alone}
    tables = {timing: np.concatenate([table, frequencies[timing][None]]) for timing, table in model.frequencies.items()}
    return replace(
        model,
        styles=(*model.styles, name),
        gaits=gaits._replace(**added),
        frequencies=tables,
        lent=np.concatenate([model.lent, lent[None]]),
    )


def _people_scores(model: LocomotionModel, speed_n: float, run: float) -> FloatArray:
    """Main scores ``(K, m)`` of everybody at one speed and gait."""
    every = np.eye(len(model.styles))
    return np.stack([model.tree.main.scores(model.gaits.row(speed_n, run, one).ravel()) for one in every])


def _search_parameters(model: LocomotionModel, goal: FloatArray, run: float) -> tuple[float, FloatArray, float, float]:
    """Speed, weights, error and gait: from the best single person, weights and speed in turn."""
    speeds = np.linspace(0.0, float(model.gaits.limits[int(run)]), NUM_SPEEDS)
    table = np.stack([_people_scores(model, float(s), run) for s in speeds])  # (S, K, m)
    apart = np.linalg.norm(table - goal, axis=-1)
    s, k = np.unravel_index(int(np.argmin(apart)), apart.shape)
    weights, best = np.eye(len(model.styles))[k], float(speeds[s])
    for _ in range(SWEEPS):
        # Where a curve of squared errors is lowest, by a parabola through its lowest point and its neighbours
        errors = np.linalg.norm(np.einsum("k,skm->sm", weights, table) - goal, axis=-1)
        i = int(np.clip(np.argmin(errors), 1, len(speeds) - 2))
        a, b, c = np.square(errors[i - 1 : i + 2])
        bend = a - 2.0 * b + c
        shift = 0.5 * (a - c) / bend if bend > 0.0 else 0.0
        best = float(speeds[i] + np.clip(shift, -1.0, 1.0) * (speeds[i + 1] - speeds[i]))
        weights = _solve_style_weights(_people_scores(model, best, run), goal)
    error = float(np.linalg.norm(weights @ _people_scores(model, best, run) - goal))
    return best, weights, error, run


def _solve_style_weights(people: FloatArray, goal: FloatArray) -> FloatArray:
    """Least squares over weights that are not negative and sum to one."""
    from scipy.optimize import nnls  # pyright: ignore[reportUnknownVariableType] (scipy is untyped)

    size = SUM_WEIGHT * float(np.linalg.norm(people))
    system = np.concatenate([people.T, np.full((1, len(people)), size)])
    weights = np.asarray(nnls(system, np.append(goal, size))[0], dtype=np.float64)
    return weights / weights.sum()
