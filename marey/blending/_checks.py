"""Physics of a blended phase: flights, planted feet, balance, friction, pressure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, frozen
from marey.dynamics import GRAVITY, Body, compute_momentum, smooth_values
from marey.motion import Motion, contact_positions, feet_down
from marey.skeleton import contact_points

SPIN_TOL: Final = 1.0  # [rad/s] a change of spin that is seen
FORCE_HZ: Final = 8.0  # [Hz] cutoff before accelerations are taken
SLIDE_TOL_MM: Final = 2.0
SINK_TOL_MM: Final = 5.0
NATURAL_FALL_MPS2: Final = (-12.7, -9.0)  # [m/s²] gravity that nobody notices to be wrong ([Reitsma2003]_)


@dataclass(frozen=True, slots=True)
class FlightCheck:
    """How a body falls and spins in a flight."""

    gravity: float  # [m/s²] of the parabola fitted to the centre of mass: -9.81 in free fall
    horizontal: float  # [m/s²] level acceleration: 0 in free fall
    line_deviation_m: float  # farthest that the path over the ground is from a straight line
    momentum_drift: float  # [-] largest change of angular momentum over its mean size
    spin_drift: float  # [rad/s] the same as a change of spin of the whole body

    @property
    def is_natural(self) -> bool:
        """Whether neither the fall nor the spin looks wrong."""
        return NATURAL_FALL_MPS2[0] <= self.gravity <= NATURAL_FALL_MPS2[1] and self.spin_drift <= SPIN_TOL


def check_flight(motion: Motion, body: Body | None = None) -> FlightCheck:
    r"""Fit a parabola to the centre of mass, and follow the angular momentum.

    .. math:: \Delta\Omega = \max_t \|I(t)^{-1}(H(t) - \bar H)\|

    [Safonova2006]_ §5.2.

    Args:
        motion: a flight, at least five frames.
        body: of the motion by default.
    """
    if motion.num_frames < 5:
        raise InputError(f"a flight of {motion.num_frames} frames", "Give at least five")
    body = Body.from_motion(motion) if body is None else body
    centres = body.centre_of_mass(motion)
    t = np.linspace(-1.0, 1.0, len(centres)) * 0.5 * motion.duration_s
    basis = np.stack([np.ones_like(t), t, 0.5 * t * t], axis=1)
    fit = np.linalg.lstsq(basis, centres, rcond=None)[0]
    level = centres[:, [0, 2]] - centres[:, [0, 2]].mean(axis=0)
    across = np.linalg.svd(level)[2][1]
    H = compute_momentum(body, motion, cutoff_hz=None)[:, 3:]
    off = H - H.mean(axis=0)
    spins = _solve_batch(whole_body_inertia(body, motion), off)
    return FlightCheck(
        gravity=float(fit[2, 1]),
        horizontal=float(np.hypot(fit[2, 0], fit[2, 2])),
        line_deviation_m=float(np.abs(level @ across).max()),
        momentum_drift=float(np.linalg.norm(off, axis=1).max() / max(float(np.linalg.norm(H.mean(axis=0))), 1e-9)),
        spin_drift=float(np.linalg.norm(spins, axis=1).max()),
    )


def _solve_batch(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.solve(matrices, vectors[..., None]), dtype=np.float64)[..., 0]


def whole_body_inertia(body: Body, motion: Motion) -> FloatArray:
    """Inertia ``(F, 3, 3)`` [kg m²] of the whole body about its centre of mass, in world axes."""
    positions, frames = body.motion(motion).joint_frames()
    R = frames.matrix()
    centre = body.centre_of_mass(motion)
    r = positions + frames @ body.centres - centre[:, None]
    own = R @ body.inertias @ np.swapaxes(R, -1, -2)
    square = (r * r).sum(axis=-1)[..., None, None] * np.eye(3) - r[..., :, None] * r[..., None, :]
    return own.sum(axis=1) + np.einsum("j,fjab->fab", body.masses, square)


@dataclass(frozen=True, slots=True)
class ContactCheck:
    """How planted feet stand and carry."""

    slide_mm: float  # farthest that the ball of a planted foot is, over the ground, from its mean place
    sink_mm: float  # farthest that a heel or ball of a planted foot is below the floor
    balance_m: float  # least margin of the centre of mass inside the polygon of the soles; negative is outside
    friction: float  # [-] largest ratio of level to vertical force that the blend needs

    @property
    def is_clean(self) -> bool:
        """Whether no foot slides over 2 mm or sinks over 5 mm."""
        return self.slide_mm <= SLIDE_TOL_MM and self.sink_mm <= SINK_TOL_MM


def check_contact(motion: Motion, body: Body | None = None, *, floor_m: float = 0.0) -> ContactCheck:
    """Measure planted feet, balance and friction of a phase with feet on the ground ([Safonova2006]_ §5.3).

    The last frame is the first of the next phase and is left out.

    Args:
        motion: a phase with a contact track, at least four frames.
        body: of the motion by default.
        floor_m: height of the floor [m].

    Raises:
        InputError: no contact track, or no foot is planted.
    """
    if motion.num_frames < 4 or motion.contacts is None or not feet_down(motion.contacts)[:-1].any():
        fix = "Give a phase of four frames or more with a contact track, as blend_phase returns it"
        raise InputError("no foot is planted", fix)
    body = Body.from_motion(motion) if body is None else body
    down = dict(zip(("left", "right"), feet_down(motion.contacts)[:-1].T, strict=True))
    motion = motion[:-1]
    points, names = contact_positions(motion), contact_points(motion.skeleton).names
    slides, sinks, corners = [0.0], [0.0], [np.zeros((0, 2))]
    for side, planted in down.items():
        ball, heel = (points[planted, names.index(f"{side}_{part}")] for part in ("toe", "heel"))
        if len(ball):
            middle = ball[:, [0, 2]].mean(axis=0)
            slides.append(float(np.hypot(*(ball[:, [0, 2]] - middle).T).max()))
            sinks.append(float(floor_m - min(ball[:, 1].min(), heel[:, 1].min())))
            corners.append(np.stack([ball[:, [0, 2]].mean(axis=0), heel[:, [0, 2]].mean(axis=0)]))
    centres = body.centre_of_mass(motion)
    force = np.diff(smooth_values(centres, motion.rate_hz, FORCE_HZ), 2, axis=0) * motion.rate_hz**2 + [
        0.0,
        GRAVITY,
        0.0,
    ]
    ratio = np.hypot(force[:, 0], force[:, 2]) / np.maximum(force[:, 1], 1e-9)
    polygon = np.concatenate(corners)
    margin = min(polygon_margin(c, polygon) for c in centres[:, [0, 2]])
    return ContactCheck(1000.0 * max(slides), 1000.0 * max(sinks), margin, float(ratio.max()))


def polygon_margin(point: FloatArray, corners: FloatArray) -> float:
    """Distance [m] of a point to the edge of the convex hull of corners ``(n, 2)``; negative outside.

    The hull of one point or of a line has no inside.
    """
    p, c = frozen(point, 2, name="point"), frozen(corners, None, 2, name="corners")
    hull = _convex_hull(c)
    if len(hull) < 3:
        return -_segment_distance(p, hull)
    nxt = np.roll(hull, -1, axis=0)
    edge = nxt - hull
    side = (edge[:, 0] * (p[1] - hull[:, 1]) - edge[:, 1] * (p[0] - hull[:, 0])) / np.linalg.norm(edge, axis=1)
    if side.min() >= 0.0:
        return float(side.min())
    return -min(_segment_distance(p, np.stack([a, b])) for a, b in zip(hull, nxt, strict=True))


def _segment_distance(p: FloatArray, ends: FloatArray) -> float:
    a, b = ends[0], ends[-1]
    along = b - a
    square = float(along @ along)
    t = float(np.clip((p - a) @ along / square, 0.0, 1.0)) if square > 0.0 else 0.0
    return float(np.linalg.norm(p - a - t * along))


def _convex_hull(points: FloatArray) -> FloatArray:
    """Corners of the convex hull, counter-clockwise (Andrew's two chains)."""
    order = points[np.lexsort((points[:, 1], points[:, 0]))]
    chains: list[list[FloatArray]] = []
    for line in (order, order[::-1]):
        chain: list[FloatArray] = []
        for p in line:
            while len(chain) > 1 and _cross_of_corner(chain[-2], chain[-1], p) <= 0.0:
                chain.pop()
            chain.append(p)
        chains.append(chain[:-1])
    hull = chains[0] + chains[1]
    return np.array(hull if hull else [order[0]])


def _cross_of_corner(a: FloatArray, b: FloatArray, c: FloatArray) -> float:
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def blend_pressure(
    pressures: FloatArray, forces: FloatArray, centres: FloatArray, durations: FloatArray, weights: FloatArray
) -> FloatArray:
    r"""Centre of pressure ``(2,)`` (x, z) [m] of a blend of two motions.

    .. math:: p = \alpha_1 p_1 + \alpha_2 p_2 + \frac{w_1 w_2}{F_n}
              \big(\Delta F_n\,\Delta c - \Delta c_y\,\Delta F\big)_{xz}, \qquad
              \alpha_i = w_i\Big(\frac{T_i}{T}\Big)^2\frac{F_{n,i}}{F_n}

    with :math:`\Delta c = c_2 - c_1`, :math:`\Delta F = (T_1/T)^2 F_1 - (T_2/T)^2 F_2`. The mean stays in a common
    convex polygon; the cross term vanishes where centres or forces agree. Open in [Safonova2006]_ §5.6, solved here.

    Args:
        pressures: of the sources ``(2, 2)`` (x, z) [m].
        forces: from the ground ``(2, 3)`` [N].
        centres: centres of mass above the floor ``(2, 3)`` [m].
        durations: ``(2,)`` [s].
        weights: ``(2,)``.
    """
    T = np.sqrt(float(weights @ durations**2))
    scaled = (durations / T)[:, None] ** 2 * forces
    total = float(weights @ scaled[:, 1])
    share = weights * scaled[:, 1] / total
    dF, dc = scaled[0] - scaled[1], centres[1] - centres[0]
    cross = dF[1] * dc - dc[1] * dF
    return share @ pressures + weights[0] * weights[1] / total * cross[[0, 2]]
