"""Ground reaction of a captured motion without plates: a low-pass chosen by the motion, and nothing in flight."""

from __future__ import annotations

from dataclasses import dataclass

from marey.base import FloatArray
from marey.dynamics.bodies import GRAVITY, Body
from marey.dynamics.inverse.newton_euler import solve_inverse_dynamics
from marey.dynamics.supports import Supports, any_in_row
from marey.motion import Motion


@dataclass(frozen=True, slots=True)
class ReactionSettings:
    """How the low-pass follows the motion; chosen on three trials: a walk, a run at 3 m/s and a drop jump."""

    lowest_hz: float = 6.0  # of walks: [Winter2009]_ takes 6 Hz for gait
    highest_hz: float = 15.0  # beyond it the noise of markers is larger than what they say
    look_hz: float = 12.0  # of the first look at the peak force
    quiet_peak: float = 1.5  # [body weights] peaks up to it need no more than the lowest
    per_peak_hz: float = 4.0  # for each body weight above: an impact is as short as it is hard
    flight_force: float = 0.5  # [body weights] more than this is a contact that nobody saw, such as on a belt


def choose_cutoff(motion: Motion, body: Body, settings: ReactionSettings | None = None) -> float:
    """Cutoff [Hz] of the low-pass that forces of a motion need: higher where they peak higher."""
    chosen = settings or ReactionSettings()
    most = 0.4 * motion.rate_hz
    look = solve_inverse_dynamics(body, motion, cutoff_hz=min(chosen.look_hz, most))
    # The ends of a clip are the filter's
    edge = min(round(0.1 * motion.rate_hz), (motion.num_frames - 1) // 4)
    inner = look.wrench[edge : motion.num_frames - edge, 1] / (body.mass_kg * GRAVITY)
    wanted = chosen.lowest_hz + chosen.per_peak_hz * max(float(inner.max()) - chosen.quiet_peak, 0.0)
    return min(wanted, chosen.highest_hz, most)


def estimate_reaction(
    motion: Motion, body: Body, supports: Supports, settings: ReactionSettings | None = None
) -> FloatArray:
    """Wrench of the ground about the world's origin ``(F, 6)`` [N, N m] that a motion needs.

    The validity report averages forces over 0.04 s so that it judges what lasts; this is the force itself. The
    low-pass is chosen by the peak of the motion, the ground does not pull, and where nothing touches and little is
    needed it gives nothing: a filter spreads what a landing needs over the flight before it.
    """
    chosen = settings or ReactionSettings()
    wrench = solve_inverse_dynamics(body, motion, cutoff_hz=choose_cutoff(motion, body, chosen)).wrench.copy()
    load = wrench[:, 1] / (body.mass_kg * GRAVITY)
    wrench[(~any_in_row(supports.touching) & (load < chosen.flight_force)) | (load < 0.0)] = 0.0
    return wrench
