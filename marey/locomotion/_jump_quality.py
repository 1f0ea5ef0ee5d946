"""How well jumps are foretold that a model has not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from marey.base import FloatArray
from marey.library import Library
from marey.lie import SO3
from marey.locomotion._jump_capture import CapturedJump
from marey.locomotion._jump_fit import captured_jumps, fit_kind
from marey.locomotion._jump_laws import LEAP_S
from marey.locomotion._jump_model import JumpModel
from marey.locomotion._jump_rows import captured_rows, steps_of
from marey.locomotion._jump_trials import RATES, Loader, chosen_trials, loader_of
from marey.locomotion._units import rows_wxyz


@dataclass(frozen=True, slots=True)
class JumpScore:
    """One captured jump against the jump of its length and airtime, by a model fitted without its trial."""

    kind: str
    clip: str
    length_m: float
    angle_deg: float  # mean over frames and joints
    length_error_m: float  # of the plain law
    duration_error_s: float  # of the pieces on the ground


def leave_one_out(
    source: str | Path | Library | Loader,
    manifest: Mapping[str, Iterable[str]] | None = None,
    *,
    means: FloatArray,
    rates: Mapping[str, float] = RATES,
    kinds: Iterable[str] = ("run", "standing"),
    report: Callable[[str], None] | None = None,
) -> tuple[JumpScore, ...]:
    """Score every captured leap and standing jump by a model that was fitted without its trial.

    Walking leaps are left out: there is one, and nothing foretells it.

    Args:
        source: as for :func:`fit_jumps`.
        manifest: names of trials by kind.
        means: ``(J, 4)`` of the gait model.
        rates: true frames per second of trials or subjects.
        kinds: of jumps.
        report: is told each score.
    """
    load, trials = loader_of(source, rates), chosen_trials(manifest)
    scores: list[JumpScore] = []
    for kind in kinds:
        jumps = captured_jumps(load, kind, trials[kind])
        for clip in dict.fromkeys(jump.clip for jump in jumps if jump.flight_s >= LEAP_S):
            model = fit_kind(kind, [jump for jump in jumps if jump.clip != clip], means)
            held = [jump for jump in jumps if jump.clip == clip and jump.flight_s >= LEAP_S]
            scores += [score_jump(model, jump) for jump in held]
            if report is not None:
                report(f"{kind} {clip}: {scores[-1].angle_deg:.1f} degrees")
    return tuple(scores)


def score_jump(model: JumpModel, jump: CapturedJump) -> JumpScore:
    """A captured jump against the model's, of the same person where the model knows him."""
    length_n = jump.length_m / model.leg_length_m
    mix = model.mixture({jump.subject: 1.0})
    sketch = model.plain(mix, length_n, jump.flight_s)
    own = rows_wxyz(captured_rows(jump, model.means, steps_of(model.kind)), model.means)
    angles = (SO3(rows_wxyz(sketch.rows, model.means)).inverse() @ SO3(own)).angle()
    lasts = float(sketch.knots[-1] - jump.knots[-1])
    error_m = model.edges(mix, length_n, jump.flight_s).length_m - jump.length_m
    return JumpScore(model.kind, jump.clip, jump.length_m, float(np.rad2deg(angles.mean())), error_m, lasts)
