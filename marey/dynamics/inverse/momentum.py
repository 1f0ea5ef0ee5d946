"""Momenta and energies of a clip, and its flights: a body that touches nothing must fall as everything falls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.contacts import detect_contacts
from marey.dynamics.bodies import GRAVITY, Body
from marey.dynamics.inverse.newton_euler import CUTOFF_HZ, solve_inverse_dynamics
from marey.dynamics.supports import any_in_row, check_length
from marey.motion import Contacts, Motion, find_runs


def compute_momentum(body: Body, motion: Motion, *, cutoff_hz: float | None = CUTOFF_HZ) -> FloatArray:
    """Linear [kg m/s] and angular momentum about the centre of mass [kg m²/s], ``(F, 6)``, in world.

    Args:
        body: made by ``Body.from_motion(motion)``.
        motion: at least three frames.
        cutoff_hz: as in ``solve_inverse_dynamics``.
    """
    result = solve_inverse_dynamics(body, motion, cutoff_hz=cutoff_hz)
    return np.concatenate([result.linear_momentum, result.angular_momentum], axis=1)


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
