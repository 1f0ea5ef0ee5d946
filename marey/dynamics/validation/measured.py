"""Ground reaction without plates and against them, and flights against gravity: a clip beside what is measured."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.contacts import detect_contacts
from marey.dynamics.bodies import GRAVITY, Body
from marey.dynamics.inverse.newton_euler import solve_inverse_dynamics
from marey.dynamics.inverse.support_split import compute_centre_of_pressure, project_on_sole, split_support
from marey.dynamics.supports import Supports, any_in_row, check_length, widen_flags
from marey.dynamics.validation.report import ValidityReport
from marey.motion import Contacts, Motion, find_runs

if TYPE_CHECKING:
    from marey.io import GroundReaction

HALF_POWER: Final = 0.1325  # [-] standard deviation [s] of a Gaussian window times the cutoff [Hz] at half its power
STIFF: Final = 1e6  # weight of the force that must vanish, against the displacement that makes it
ROUNDS: Final = 6  # of finding frames that pull


@dataclass(frozen=True, slots=True)
class ReactionSettings:
    """How the low-pass follows the motion; chosen on eight trials: three drop jumps, four walks, a run at 3 m/s."""

    bands_hz: tuple[float, ...] = (3.5, 8.0, 20.0)  # what a quiet stance, a step and a landing need
    noise_hz: float = 32.0  # of what is above the last band nothing is kept: it tells the noise
    doubt: float = 16.0  # times the noise expected in a band below which it says nothing
    power: float = 5.0  # of the cutoff with which noise grows near a flight: white noise of places
    calm_power: float = 0.5  # the same elsewhere, where no impact hides the force of soft tissue, which grows less
    near_s: float = 0.6  # [s] from a flight within which landings and runs are looked for
    around_s: float = 0.06  # [s] over which a band is weighed: an impact lasts as long
    flight_force: float = 0.5  # [body weights] more than this is a contact that nobody saw, such as on a belt
    flight_edge_s: float = 0.02  # [s] at either end of a flight, in which a foot may touch yet
    bearing_width: float = 0.4  # [-] of the sole's, along whose middle the pressure of one foot rolls
    pressure_s: float = 0.03  # [s] over which it is averaged, by its force
    rhythm_share: float = 0.5  # of the rhythm of flights: what one shows to be wrong reaches to the next ones
    spread_hz: tuple[float, float] = (0.4, 2.0)  # least, for jumps far apart, and most, for the steps of a sprint


def filter_reaction(
    motion: Motion, body: Body, settings: ReactionSettings | None = None, calm: BoolArray | None = None
) -> FloatArray:
    r"""Wrench about the centre of mass ``(F, 6)`` [N, N m] by inverse dynamics, each frequency where it is believed.

    .. math:: w = w_0 + \sum_b g_b(t)\,(w_{b+1} - w_b),\quad
        g_b = \Big[1 - \kappa\,\frac{h_b}{h_n}\,\frac{E_n(t)}{E_b(t)}\Big]_+,\quad h_b = f_{b+1}^p - f_b^p

    with wrenches :math:`w_b` under Gaussian low-passes of the cutoffs :math:`f_b` and local energies :math:`E_b` of the
    bands between them. Noise of places that is white has a force whose power grows with :math:`f^4`, p = 5, so the
    highest band :math:`n`, of which nothing is kept, tells how much of the others is noise: a landing is kept to 20 Hz,
    a quiet stance and a marker that trembles to 3.5 Hz. In frames ``calm (F,)``, and for moments, p is 0.5: the force
    of soft tissue is as large at low frequencies, and no impact hides it there.
    """
    chosen, rate_hz = settings or ReactionSettings(), motion.rate_hz
    edges = (*chosen.bands_hz, min(chosen.noise_hz, 0.45 * rate_hz))
    dynamics = solve_inverse_dynamics(body, motion, cutoff_hz=edges[-1])
    raw = np.concatenate([dynamics.forces, dynamics.moments], axis=1)
    below = [average_frames(raw, HALF_POWER * rate_hz / f) for f in chosen.bands_hz] + [raw]
    bands = [high - low for low, high in pairwise(below)]
    smooth = np.zeros(motion.num_frames, dtype=np.bool_) if calm is None else calm
    wrench = below[0].copy()
    for part in (slice(0, 3), slice(3, 6)):
        power = np.where(smooth | (part.start > 0), chosen.calm_power, chosen.power)
        heights = [high**power - low**power for low, high in pairwise(edges)]
        energies = [average_frames((band[:, part] ** 2).sum(axis=1), chosen.around_s * rate_hz) for band in bands]
        for band, energy, height in zip(bands[:-1], energies[:-1], heights[:-1], strict=True):
            noise = chosen.doubt * height / heights[-1] * energies[-1]
            wrench[:, part] += np.clip(1.0 - noise / np.maximum(energy, 1e-12), 0.0, 1.0)[:, None] * band[:, part]
    return wrench


def free_flights(
    load: FloatArray, flying: BoolArray, rate_hz: float, settings: ReactionSettings
) -> tuple[FloatArray, BoolArray]:
    r"""Vertical force ``(F,)`` [body weights] that vanishes in flight and never pulls, and where it vanishes ``(F,)``.

    .. math:: \min_e \sum_k e_k^2 + \lambda\sum_k(\Delta^3 e_k)^2
        \quad\text{so that}\quad f_k + \Delta^2 e_k\,f_s^2/g = 0 \text{ in flight, } \ge 0 \text{ elsewhere}

    The least displacement e of the centre of mass: what soft tissue makes of a flight is taken from the stances around
    it, whose impulse a force that is merely cut off would get wrong. λ as in ``smooth_motion``, its cutoff half of the
    rhythm of take-offs: soft tissue swings with the steps of a run, and a jump after another says nothing faster.
    """
    from scipy.linalg import solveh_banded

    count, unit = len(load), GRAVITY / rate_hz**2
    gaps = np.diff([start for start, _ in find_runs(flying)])
    rhythm_hz = rate_hz / float(np.median(gaps)) if len(gaps) else 0.0
    spread_hz = float(np.clip(settings.rhythm_share * rhythm_hz, *settings.spread_hz))
    stiffness = (np.sqrt(2.0) - 1.0) / (2.0 * np.sin(np.pi * spread_hz / rate_hz)) ** 6
    free, force = flying.copy(), load
    for _ in range(ROUNDS if count > 3 else 0):
        # Upper bands of I + lambda D3^T D3 + D2^T W D2, and D2^T W times what is wanted of D2 e
        bands, right = np.zeros((4, count)), np.zeros(count)
        bands[3] = 1.0
        held = np.where(free[1:-1], STIFF, 0.0)
        for stencil, weights in (((-1.0, 3.0, -3.0, 1.0), stiffness), ((1.0, -2.0, 1.0), held)):
            last = count - len(stencil) + 1
            for i, left in enumerate(stencil):
                for j in range(i, len(stencil)):
                    bands[3 - (j - i), j : last + j] += weights * left * stencil[j]
        for i, weight in enumerate((1.0, -2.0, 1.0)):
            right[i : count - 2 + i] -= weight * held * load[1:-1] * unit
        shift = np.asarray(solveh_banded(bands, right), dtype=np.float64)
        force = load + np.pad(np.diff(shift, 2) / unit, 1)
        if not ((force < 0.0) & ~free).any():
            break
        free = free | (force < 0.0)
    return np.where(free, 0.0, np.maximum(force, 0.0)), free


def estimate_reaction(
    motion: Motion, body: Body, supports: Supports, settings: ReactionSettings | None = None
) -> FloatArray:
    """Wrench of the ground about the world's origin ``(F, 6)`` [N, N m] that a motion needs.

    The validity report averages forces over 0.04 s so that it judges what lasts; this is the force itself, by
    :func:`filter_reaction`. The ground does not pull, where nothing touches and little is needed it gives nothing
    (:func:`free_flights`), and on one foot the pressure stays on its sole.
    """
    chosen, rate_hz = settings or ReactionSettings(), motion.rate_hz
    weight, edge = body.mass_kg * GRAVITY, round(chosen.flight_edge_s * rate_hz)
    touching = any_in_row(supports.touching)
    # Flights are sought in what the landing's own filter gives
    wrench = filter_reaction(motion, body, chosen)
    light = wrench[:, 1] < chosen.flight_force * weight
    flying = light & ~widen_flags(touching, edge)
    near = widen_flags(light, min(round(chosen.near_s * rate_hz), motion.num_frames))
    if not near.all():
        wrench = filter_reaction(motion, body, chosen, ~near)
    load, free = free_flights(wrench[:, 1] / weight, flying, rate_hz, chosen)
    wrench[:, 1] = weight * load
    wrench[:, 3:] += np.cross(body.centre_of_mass(motion), wrench[:, :3])
    # On one foot the pressure rolls slowly along the middle of its sole
    feet = [supports.limb_active(limb, slack=False) for limb in (0, 1)]
    others = supports.limb_active(2) | supports.limb_active(3) | free
    for limb in (0, 1):
        for start, stop in find_runs(feet[limb] & ~feet[1 - limb] & ~others):
            own = wrench[start:stop]
            places, _ = compute_centre_of_pressure(own, supports.floor_m)
            parts = [average_frames(v, chosen.pressure_s * rate_hz) for v in (places * own[:, 1:2], own[:, 1:2])]
            pairs = supports.points[start:stop, supports.limbs == limb].reshape(stop - start, -1, 2, 3)
            middles = pairs.mean(axis=2, keepdims=True)
            corners = (middles + chosen.bearing_width * (pairs - middles)).reshape(stop - start, -1, 3)
            moved = project_on_sole(parts[0] / np.maximum(parts[1], 1e-9), corners) - places
            own[:, 3:] += np.cross(moved * [1.0, 0.0, 1.0], own[:, :3])
    wrench[free] = 0.0
    return wrench


def average_frames(values: FloatArray, sigma: float) -> FloatArray:
    """Mean of values ``(F, ...)`` over a Gaussian window of this standard deviation [frames]."""
    from scipy.ndimage import gaussian_filter1d

    return np.asarray(gaussian_filter1d(values, sigma, axis=0, mode="nearest"), dtype=np.float64)


MIN_FLIGHT_S: Final = 0.2  # shorter ones are too flat to fit a parabola to
EDGE_FRAMES: Final = 1  # left out at either end, where the contact may still be going on
MIN_FALL: Final = 0.4 * GRAVITY  # a body that falls more slowly is carried by something that was not seen
FALL_TOL: Final = 1.0  # [m/s²] what shares of mass taken from a table allow
MIN_FIT_FRAMES: Final = 5


@dataclass(frozen=True, slots=True)
class Flight:
    """A stretch without contact, and the parabola that its centre of mass follows."""

    start: int  # first frame without contact
    stop: int  # first frame with contact again
    duration_s: float
    vertical: float  # [m/s²] acceleration of the centre of mass, upwards: -9.81 in free fall
    horizontal: float  # [m/s²] length of its level part: 0 in free fall
    residual_m: float  # root mean square distance of the centre of mass from the parabola

    @property
    def is_free_fall(self) -> bool:
        """Whether the body falls at gravity, to within 1 m/s² in both directions."""
        return abs(self.vertical + GRAVITY) < FALL_TOL and self.horizontal < FALL_TOL

    @property
    def length_scale(self) -> float:
        """Scale of all lengths that makes the body fall at gravity."""
        return -GRAVITY / self.vertical


def fit_flight_gravity(
    motion: Motion,
    body: Body | None = None,
    *,
    contacts: Contacts | None = None,
    min_flight_s: float = MIN_FLIGHT_S,
) -> list[Flight]:
    r"""Fit a parabola to the centre of mass in every flight, and return its acceleration.

    A wrong unit of length shows in proportion, a wrong frame rate as its square, a wrong share of mass as a parabola
    that depends on what the limbs do: the check of lengths, rate and masses in one ([Safonova2006]_ ch. 3). Stretches
    without contact are not flights if they begin or end with the clip, or if the body falls slower than 0.4 g:
    something that is not in the clip carries it.

    Args:
        motion: any clip.
        body: made from the motion by default.
        contacts: the motion's own by default, detected where it has none.
        min_flight_s: shortest flight [s].

    Raises:
        InputError: the track has another number of frames than the motion, or ``min_flight_s`` is not a number.
    """
    if not (np.isfinite(min_flight_s) and min_flight_s >= 0.0):
        raise InputError(f"min_flight_s is {min_flight_s}", "Give a time in seconds")
    body = Body.from_motion(motion) if body is None else body
    given = motion.contacts if contacts is None else contacts
    found = detect_contacts(motion) if given is None else given
    check_length(found, motion)
    centres = body.centre_of_mass(motion)
    shortest = max(MIN_FIT_FRAMES + 2 * EDGE_FRAMES, int(np.ceil(min_flight_s * motion.rate_hz)))
    flights: list[Flight] = []
    for start, stop in find_runs(~any_in_row(found.active)):
        if stop - start < shortest or start == 0 or stop == motion.num_frames:
            continue
        # Least squares of a parabola
        path = centres[start + EDGE_FRAMES : stop - EDGE_FRAMES]
        times = (np.arange(len(path)) - 0.5 * (len(path) - 1)) / motion.rate_hz
        basis = np.stack([np.ones_like(times), times, 0.5 * times**2], axis=1)
        fit = np.linalg.solve(basis.T @ basis, basis.T @ path)
        residual_m = float(np.linalg.norm(path - basis @ fit) / np.sqrt(len(path)))
        vertical, horizontal = float(fit[2, 1]), float(np.hypot(fit[2, 0], fit[2, 2]))
        if -vertical > MIN_FALL:
            duration_s = (stop - start) / motion.rate_hz
            flights.append(Flight(start, stop, duration_s, vertical, horizontal, residual_m))
    return flights


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
