"""Leave-one-out scores of the jump model: every captured jump against a model fitted without its trial."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from marey.base import FloatArray
from marey.library import Library
from marey.lie import SO3
from marey.locomotion.fitting.jumps import MIN_LEAP_FLIGHT_S, capture_jumps, fit_kind
from marey.locomotion.fitting.trials import JUMP_GAITS, Manifest, TrialLoader, load_manifest, make_loader
from marey.locomotion.model.locomotion_model import JumpModel
from marey.locomotion.units.captured_jumps import CapturedJump, canonical_steps, sample_captured_jump
from marey.locomotion.units.gait_unit import rotations_from_rows


@dataclass(frozen=True, slots=True)
class JumpScore:
    """One captured jump against the jump of its length and airtime, by a model fitted without its trial."""

    kind: str
    clip: str
    length_m: float
    angle_deg: float  # mean over frames and joints
    length_error_m: float  # of the plain law
    duration_error_s: float  # of the pieces on the ground


def score_left_out_jumps(
    source: str | Path | Library | TrialLoader,
    manifest: Manifest | None = None,
    *,
    means: FloatArray,
    kinds: Iterable[str] = ("run", "standing"),
    report: Callable[[str], None] | None = None,
) -> tuple[JumpScore, ...]:
    """Score every captured leap and standing jump by a model that was fitted without its trial.

    Walking leaps are left out: there is one, and nothing foretells it.

    Args:
        source: as for :func:`fit_jumps`.
        manifest: its groups of jumps; that of the shipped model by default.
        means: ``(J, 4)`` of the gait model.
        kinds: of jumps.
        report: is told each score.
    """
    plan = load_manifest() if manifest is None else manifest
    load, gaits = make_loader(source, plan.rates), {kind: gait for gait, kind in JUMP_GAITS.items()}
    scores: list[JumpScore] = []
    for kind in kinds:
        jumps = capture_jumps(load, kind, {c: g.subject for g, c in plan.clips_of("train", gaits[kind])})
        for clip in dict.fromkeys(jump.clip for jump in jumps if jump.flight_s >= MIN_LEAP_FLIGHT_S):
            model = fit_kind(kind, [jump for jump in jumps if jump.clip != clip], means)
            held = [jump for jump in jumps if jump.clip == clip and jump.flight_s >= MIN_LEAP_FLIGHT_S]
            scores += [score_jump(model, jump) for jump in held]
            if report is not None:
                report(f"{kind} {clip}: {scores[-1].angle_deg:.1f} degrees")
    return tuple(scores)


def score_jump(model: JumpModel, jump: CapturedJump) -> JumpScore:
    """A captured jump against the model's, of the same person where the model knows him."""
    length_n = jump.length_m / model.leg_length_m
    mix = model.mix_people({jump.subject: 1.0})
    sketch = model.plain(mix, length_n, jump.flight_s)
    own = rotations_from_rows(sample_captured_jump(jump, model.means, canonical_steps(model.kind)), model.means)
    angles = (SO3(rotations_from_rows(sketch.rows, model.means)).inverse() @ SO3(own)).angle()
    lasts = float(sketch.knots[-1] - jump.knots[-1])
    error_m = model.edges(mix, length_n, jump.flight_s).length_m - jump.length_m
    return JumpScore(model.kind, jump.clip, jump.length_m, float(np.rad2deg(angles.mean())), error_m, lasts)
