"""Computed against measured ground reaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.dynamics.bodies import GRAVITY
from marey.dynamics.inverse.reaction import estimate_reaction
from marey.dynamics.inverse.support_split import compute_centre_of_pressure, split_support
from marey.dynamics.supports import any_in_row
from marey.dynamics.validation.report import ValidityReport
from marey.motion import Motion, find_runs

if TYPE_CHECKING:
    from marey.io import GroundReaction


MISSED_S: Final = 0.1  # [s] a foot that stands longer than this without a force stands beside the plates
MIN_FRAMES: Final = 10
SINGLE_LOAD: Final = 0.4  # [body weights] on one foot, below which its centre of pressure says little
SIDES: Final = ("left", "right")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReactionComparison:
    """How far computed ground reaction is from measured, on the frames in which the plates carry the whole body."""

    times: FloatArray  # (F,) [s] of the clip
    used: BoolArray  # (F,) frames that are compared
    computed: FloatArray  # (F, 3) [N]
    measured: FloatArray  # (F, 3) [N]
    weight_n: float
    vertical_rms: float  # [body weights]
    force_rms: tuple[float, float, float]  # [body weights] along x, y, z
    bias: float  # [body weights] mean vertical error; that of a wrong mass
    implied_mass_kg: float  # mass with which the vertical forces agree on the whole
    scaled_rms: float  # [body weights] vertical, had that mass been given
    pressure_rms_m: float  # [m] centre of pressure of the whole
    single_pressure_rms_m: float  # [m] on one foot that carries the body; infinite without single stance
    moment_rms: float  # [body weights · m] about the vertical through the measured centre of pressure
    foot_rms: dict[str, float]  # [body weights] vertical force of each foot that was measured, by the alpha rule

    @property
    def sentence(self) -> str:
        """The error in words."""
        return (
            f"vertical force off by {100.0 * self.vertical_rms:.1f} % of body weight RMS over {int(self.used.sum())} "
            f"frames, centre of pressure by {1e3 * self.pressure_rms_m:.0f} mm; "
            f"the plates weigh {self.implied_mass_kg:.1f} kg ({100.0 * self.scaled_rms:.1f} % with that mass)"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        kept = ("vertical_rms", "bias", "implied_mass_kg", "pressure_rms_m", "moment_rms", "foot_rms", "sentence")
        facts = {"num_frames": int(self.used.sum()), "force_rms": list(self.force_rms)}
        return facts | {name: getattr(self, name) for name in kept} | {"scaled_vertical_rms": self.scaled_rms}

    def __repr__(self) -> str:
        return f"ReactionComparison({self.sentence})"


def compare_reaction(
    report: ValidityReport, reaction: GroundReaction, *, start_s: float = 0.0, motion: Motion | None = None
) -> ReactionComparison:
    """Compare what a motion needs with what force plates measured.

    Frames in which a foot stands beside the plates are left out: they are those of contacts without a force that last
    longer than 0.1 s, and those without any force.

    Args:
        report: of the clip; its floor is that of the plates.
        reaction: same axes as the clip.
        start_s: time of the first frame on the clock of the plates [s].
        motion: the clip; with it forces are those of :func:`estimate_reaction`, without it those of the report, which
            are averaged over 0.04 s.

    Raises:
        InputError: fewer than ten frames can be compared.
    """
    measured = reaction.at(report.times + start_s)
    # Frames `(F,)` in which the plates carry all of the body
    loaded = measured.is_loaded()
    used = any_in_row(loaded)
    longest = MISSED_S * report.dynamics.rate_hz
    for limb, side in enumerate(SIDES):
        felt = loaded[:, measured.names.index(side)] if side in measured.names else any_in_row(loaded)
        for start, stop in find_runs(report.supports.limb_active(limb, slack=False) & ~felt):
            used[start:stop] &= (stop - start) <= longest
    if int(used.sum()) < MIN_FRAMES:
        raise InputError(
            f"only {int(used.sum())} frames of '{report.name}' stand on the plates with all feet",
            "Check start_s, the axes and the length of the file",
        )
    # Errors in body weights, and the mass at which the vertical forces would agree
    weight = report.dynamics.body.mass_kg * GRAVITY
    given, body = measured.wrench(), report.dynamics.body
    wanted = report.wrench if motion is None else estimate_reaction(motion, body, report.supports)
    error = (wanted - given)[used, :3] / weight
    scale = float((wanted[used, 1] * given[used, 1]).sum() / max(float((wanted[used, 1] ** 2).sum()), 1e-9))
    # Centres of pressure
    places, _ = compute_centre_of_pressure(wanted, report.supports.floor_m)
    truth, _ = compute_centre_of_pressure(given, report.supports.floor_m)
    feet = np.stack([report.supports.limb_active(limb, slack=False) for limb in range(2)], axis=1)
    single = used & (feet.sum(axis=1) == 1) & (np.minimum(wanted[:, 1], given[:, 1]) > SINGLE_LOAD * weight)
    off = np.linalg.norm(places - truth, axis=-1)
    away = off[used & (np.minimum(wanted[:, 1], given[:, 1]) > 0.0)]
    # Vertical error of each foot, the computed force shared by the alpha rule
    foot_rms: dict[str, float] = {}
    if set(SIDES) <= set(measured.names):
        split = split_support(wanted, report.supports, rule="alpha")
        for k, side in enumerate(SIDES):
            felt = measured.forces[:, measured.names.index(side), 1]
            foot_rms[side] = _root_mean_square((split.forces[:, k, 1] - felt)[used] / weight)
    # Moments about the vertical through the measured centre of pressure
    twists = [(values[:, 3:] - np.cross(truth, values[:, :3]))[:, 1][used] for values in (wanted, given)]
    return ReactionComparison(
        times=report.times,
        used=used,
        computed=wanted[:, :3],
        measured=given[:, :3],
        weight_n=weight,
        vertical_rms=_root_mean_square(error[:, 1]),
        force_rms=(_root_mean_square(error[:, 0]), _root_mean_square(error[:, 1]), _root_mean_square(error[:, 2])),
        bias=float(error[:, 1].mean()),
        implied_mass_kg=scale * report.dynamics.body.mass_kg,
        scaled_rms=_root_mean_square((scale * wanted[used, 1] - given[used, 1]) / (scale * weight)),
        pressure_rms_m=_root_mean_square(away),
        single_pressure_rms_m=_root_mean_square(off[single]) if single.any() else float("inf"),
        moment_rms=_root_mean_square((twists[0] - twists[1]) / weight),
        foot_rms=foot_rms,
    )


def _root_mean_square(values: FloatArray) -> float:
    return float(np.sqrt((values**2).mean())) if values.size else float("inf")
