"""The locomotion model: gaits as plain arrays, ready for compiled code, with jumps, and its file.

The hierarchical model of gaits is expanded into the arrays that the engine runs on. On disk a model is one
``.safetensors`` file of plain numbers that cannot run code.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marey.base import BoolArray, FloatArray, InputError, MareyError, TensorFormat
from marey.lie import SO3
from marey.locomotion.checks import check_name, check_positive, check_weights
from marey.locomotion.model.jump_model import JumpModel
from marey.locomotion.planning.parameters import GRAVITY, SCALINGS
from marey.models import Components, HierarchicalModel, Leaf, Person, SpeedLaw
from marey.motion import Motion, centre_of_mass
from marey.skeleton import HUMAN, Skeleton

EVENTS: Final = ("RHS", "RTS", "RHO", "RTO", "LHS", "LTS", "LHO", "LTO")
"""Right and left: heel (ankle) strike, toe strike, heel off, toe off; in the columns of every event table."""

EFFECTORS: Final = ("right_ankle", "right_foot", "left_ankle", "left_foot")
"""The four points that foot plants hold, by the joints of the canonical human."""

GAITS: Final = ("walk", "run")
TIMINGS: Final = ("stance", "glardon", "inman")

Style = str | Mapping[str, float] | None


class GaitArrays(NamedTuple):
    r"""All styles and both gaits, multiplied out ([Glardon2005]_ §II.2.3.2).

    .. math:: \theta = \sum_{k\tau} w_k w_\tau \big(B_{k\tau} + A^{\tau k}(s_n)\,D_{k\tau}\big)

    ``K`` styles, 2 gaits (0 walks, 1 runs), ``C`` components, ``N`` frames, ``D = 3 + 3 J`` columns, ``G`` speeds.
    The law: ``A = standing + (slope * slowest + offset - standing) * (s / slowest) ** power`` below ``slowest``,
    ``A = slope * s + offset`` above. Tables are linear between speeds and hold their ends.
    """

    base: FloatArray  # (K, 2, N, D)
    lift: FloatArray  # (K, 2, C, N, D)
    standing: FloatArray  # (K, 2, C)
    slope: FloatArray  # (K, 2, C) [s]
    offset: FloatArray  # (K, 2, C)
    slowest: FloatArray  # (K, 2) [1/s] normalised speed
    power: float
    has_gait: BoolArray  # (K, 2) who has one gait alone shows that gait
    speeds: FloatArray  # (G,) [1/s] normalised speeds of the tables below, the first is zero
    frequency: FloatArray  # (K, 2, G) [Hz] cycles per second, at the model's own leg length
    events: FloatArray  # (K, 2, G, 8) unwrapped phases, in the order of EVENTS
    means: FloatArray  # (J, 4) wxyz, q_j = mean_j * exp(v_j)
    limits: FloatArray  # (2,) [1/s] fastest normalised walk and run

    def shares(self, run: float, weights: ArrayLike) -> FloatArray:
        """Weight ``(K, 2)`` of every leaf: style times gait; who has one gait alone shows that gait."""
        part = min(max(float(run), 0.0), 1.0)
        shares = np.array([1.0 - part, part]) * self.has_gait
        alone = self.has_gait.sum(axis=1) == 1
        shares[alone] = self.has_gait[alone]
        return np.asarray(weights, dtype=np.float64)[:, None] * shares

    def scores(self, speed_n: float) -> FloatArray:
        """Scores ``(K, 2, C)`` of every leaf at a normalised speed [1/s]; below zero counts as zero."""
        s = max(float(speed_n), 0.0)
        joint = self.slope * self.slowest[..., None] + self.offset
        curve = self.standing + (joint - self.standing) * (s / self.slowest[..., None]) ** self.power
        return np.where(s < self.slowest[..., None], curve, self.slope * s + self.offset)

    def row(self, speed_n: float, run: float, weights: ArrayLike) -> FloatArray:
        """Rows ``(N, D)`` of the unit at a normalised speed [1/s], share of running and weights ``(K,)`` of styles."""
        shares = self.shares(run, weights)
        scores = self.scores(speed_n)
        total = np.zeros_like(self.base[0, 0])
        for k, t in np.argwhere(shares > 0.0):
            total += shares[k, t] * (self.base[k, t] + np.tensordot(scores[k, t], self.lift[k, t], axes=1))
        return total


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LocomotionModel:
    """A trained model of gaits: everything that :class:`marey.locomotion.Engine` needs."""

    skeleton: Skeleton
    leg_length_m: float  # hip joint to floor of `skeleton`, standing
    styles: tuple[str, ...]  # (K,)
    default_style: Mapping[str, float]  # what `style=None` means
    gaits: GaitArrays
    tree: HierarchicalModel  # what `gaits` was multiplied out from
    rest_heights: FloatArray  # (4,) of EFFECTORS above the floor, over leg length
    frequencies: Mapping[str, FloatArray]  # (K, 2, G) [Hz] by timing
    lent: BoolArray  # (K, 2) this person never showed this gait: it is the common one in the person's posture
    jumps: Mapping[str, JumpModel] = field(default_factory=dict[str, JumpModel])
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])  # clips, settings and figures of the fit

    def skeleton_for(self, leg_length_m: float) -> Skeleton:
        """Return the model's body with legs of another length [m], all bones scaled alike."""
        return self.skeleton.scaled(check_positive("leg_length_m", leg_length_m) / self.leg_length_m)

    @property
    def labels(self) -> tuple[str, ...]:
        """Readable names ``(K,)`` of the styles, as good as the others wherever a style is asked for."""
        known = self.info.get("labels", {})
        return tuple(str(known.get(name, name)) for name in self.styles)

    def weights(self, style: Style = None) -> FloatArray:
        """Weights ``(K,)`` of the styles, summing to one.

        Args:
            style: ``None`` for the model's own mixture, a name or label, or a weight for each of some.

        Raises:
            UnknownNameError: a name is not a style of this model.
            InputError: a weight is negative or not finite, or all are zero.
        """
        given = self.default_style if style is None else {style: 1.0} if isinstance(style, str) else style
        weights = np.zeros(len(self.styles))
        codes = dict(zip(self.labels, self.styles, strict=True))
        for label, weight in check_weights("style", given).items():
            name = check_name("style", codes.get(label, label), "this model", self.styles)
            weights[self.styles.index(name)] += weight
        if weights.sum() <= 0.0:
            raise InputError("all style weights are zero", "Give one style a positive weight")
        return weights / weights.sum()

    def with_timing(self, timing: str) -> GaitArrays:
        """Return the arrays with the cycle frequencies of a timing: ``"stance"``, ``"glardon"`` or ``"inman"``."""
        check_name("timing", timing, "this model", self.frequencies)
        return self.gaits._replace(frequency=self.frequencies[timing])

    def scales(self, leg_length_m: float, scaling: str = "froude") -> tuple[float, float]:
        r"""Factors from speed [m/s] to normalised speed [1/s], and from the table's frequency to the character's.

        .. math:: s_n = s / \sqrt{H H_0} \text{ ("froude")}, \qquad s_n = s / H \text{ ("leg", [Glardon2005]_ §III.1.2)}
        """
        leg = check_positive("leg_length_m", leg_length_m)
        if check_name("scaling", scaling, "the locomotion engine", SCALINGS) == "leg":
            return 1.0 / leg, 1.0
        ratio = float(np.sqrt(self.leg_length_m / leg))
        return ratio / self.leg_length_m, ratio

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a ``.safetensors`` file; the same model makes the same bytes."""
        # Large tables in single precision, laws and means in double; the gaits are multiplied out again on reading.
        tensors = _tree_tensors(self.tree)
        tensors |= {
            "standing": to_single(standing_rows(self)),
            "means": self.gaits.means,
            "limits": self.gaits.limits,
            "events": to_single(self.gaits.events),
            "lent": self.lent.astype(np.uint8),
            "rest_heights": self.rest_heights,
            "scale": np.array([self.leg_length_m / HUMAN_LEG_M]),
        }
        tensors |= {f"{TIMING_PREFIX}{name}": to_single(table) for name, table in self.frequencies.items()}
        # Styles that were added to the fitted people have no branch in the tree: their tables are written
        added = len(self.tree.people)
        if added < len(self.styles):
            tensors |= {f"{ADDED_PREFIX}{part}": getattr(self.gaits, part)[added:] for part in ADDED_PARTS}
        for kind, jump in self.jumps.items():
            tensors |= {f"{JUMP_PREFIX}{kind}/{name}": array for name, array in jump.to_arrays().items()}
        facts = {
            "styles": list(self.styles),
            "default_style": dict(self.default_style),
            "num_frames": int(self.gaits.base.shape[2]),
            "jumps": list(self.jumps),
            "info": dict(self.info),
        }
        FORMAT.write(Path(path), tensors, facts)

    def describe(self) -> dict[str, Any]:
        """What is in the model, as plain data: people, gaits, captured speeds on the model's legs, and jumps."""
        people: dict[str, Any] = {}
        for k, (name, label) in enumerate(zip(self.styles, self.labels, strict=True)):
            lent = [gait for gait, is_lent in zip(GAITS, self.lent[k], strict=True) if is_lent]
            shown: dict[str, Any] = self.info.get("captured", {}).get(name, {})
            captured = {g: {"cycles": int(n), "mps": [low, high]} for g, (n, low, high) in shown.items()}
            people[name] = {"label": label, "lent": lent, "captured": captured}
        fastest = {gait: float(self.gaits.limits[t] * self.leg_length_m) for t, gait in enumerate(GAITS)}
        jumps = {
            kind: {
                "captured_m": (one.captured * one.leg_length_m).tolist(),
                "range_m": (one.limits * one.leg_length_m).tolist(),
                "people": list(one.people),
                "is_lent": kind in self.info.get("lent_jumps", ()),
            }
            for kind, one in self.jumps.items()
        }
        return {
            "kind": "locomotion model",
            "leg_length_m": self.leg_length_m,
            "people": people,
            "default_style": dict(self.default_style),
            "fastest_mps": fastest,
            "jumps": jumps,
            "num_units": int(self.info.get("num_units", 0)),
            "clips": list(self.info.get("clips", ())),
            "rejected": list(self.info.get("rejected", ())),
        }

    def text(self) -> str:
        """Lines to read of :meth:`describe`."""
        facts = self.describe()
        lines = [
            f"{len(self.styles)} people, {facts['num_units']} cycles of {len(facts['clips'])} clips, walks to "
            f"{facts['fastest_mps']['walk']:.1f} m/s, runs to {facts['fastest_mps']['run']:.1f} m/s (leg "
            f"{self.leg_length_m:.2f} m)"
        ]
        for name, person in facts["people"].items():
            parts = [f"{gait} lent" for gait in person["lent"]]
            for gait, one in person["captured"].items():
                parts.append(f"{one['cycles']} cycles of a {gait}, {one['mps'][0]:.1f} to {one['mps'][1]:.1f} m/s")
            share = self.default_style.get(name, 0.0)
            called = f"{person['label']} ({name})" if person["label"] != name else name
            lines.append(f"  {called}: {', '.join(parts)}{f'; default style {100 * share:.0f} %' if share else ''}")
        for kind, jump in facts["jumps"].items():
            low, high = jump["captured_m"]
            lines.append(
                f"  {kind} jumps {jump['range_m'][0]:.2f} to {jump['range_m'][1]:.2f} m, captured {low:.2f} to "
                f"{high:.2f} m of {', '.join(jump['people'])}{' (lent)' if jump['is_lent'] else ''}"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"LocomotionModel({len(self.styles)} styles, {self.gaits.base.shape[2]} frames, jumps {list(self.jumps)})"
        )


NUM_SPEEDS: Final = 36
SPEED_POWER: Final = 1.6  # of the grid of speeds: denser near standing, where frequency rises as a root
NUM_SCORES: Final = 2  # a line in speed, and what is left of standing


def expand_gait_arrays(
    tree: HierarchicalModel,
    standing: FloatArray,
    means: FloatArray,
    limits: FloatArray,
    *,
    num_frames: int,
) -> GaitArrays:
    r"""Multiply a tree out.

    A law that is a line above the slowest speed and a root below needs two directions, however many components a leaf
    has: with the line :math:`\theta(s) = b + a s` and the standing unit :math:`\theta_0`,

    .. math:: \theta = b + A_0\,a + A_1\,(\theta_0 - b), \qquad
              A = (s, 0)\ (s \ge s_w), \quad A = (s_w x, 1 - x),\ x = (s/s_w)^m\ (s < s_w)

    Args:
        tree: the fitted model; every person has both gaits.
        standing: ``(K, D)`` row of each person at rest; the components hold it but for their truncation, it is exact.
        means: ``(J, 4)`` wxyz.
        limits: ``(2,)`` [1/s] fastest walk and run.
        num_frames: of a unit.
    """
    people = tuple(tree.people)
    columns = standing.shape[1]
    shape = (len(people), len(GAITS))
    base = np.zeros((*shape, num_frames, columns))
    lift = np.zeros((*shape, NUM_SCORES, num_frames, columns))
    slowest = np.zeros(shape)
    power = 0.0
    for k, person in enumerate(people):
        for t, gait in enumerate(GAITS):
            law = tree.people[person].leaves[gait].law
            # The line b + a s of the leaf
            middle, lifting = tree.expand_leaf(person, gait)
            line = middle + law.offset @ lifting
            base[k, t] = line.reshape(num_frames, columns)
            lift[k, t, 0] = (law.slope @ lifting).reshape(num_frames, columns)
            # What is left of standing: theta_0 - b
            lift[k, t, 1] = standing[k] - base[k, t]
            slowest[k, t], power = law.slowest, law.power
    rest = np.broadcast_to([0.0, 1.0], (*shape, NUM_SCORES)).copy()
    slope = np.broadcast_to([1.0, 0.0], (*shape, NUM_SCORES)).copy()
    # Normalised speeds `(G,)` [1/s] of the tables, from zero
    speeds = float(limits.max()) * np.linspace(0.0, 1.0, NUM_SPEEDS) ** SPEED_POWER
    return GaitArrays(
        base, lift, rest, slope, np.zeros((*shape, NUM_SCORES)), slowest, power,
        np.ones(shape, dtype=np.bool_), speeds, np.zeros((*shape, len(speeds))),
        np.zeros((*shape, len(speeds), len(EVENTS))), means, limits,
    )  # fmt: skip


LEVEL_SPEEDS: Final = (1.2, 0.85)  # [-] of the slowest and fastest run: a line in speed serves best between them
FLAT_PHASES: Final = (0.02, 0.13)  # of a run, at which the sole comes down
# [-] of a stance: the middle of its force; [-] of the leg: how far the middle of the foot is behind the body then, at
# least and at most; in most runs of 02, 09, 16 and 35
FORCE_MIDDLE: Final = 0.44
FEET_BEHIND: Final = (0.065, 0.1)
HALF_STEP_WIDTHS: Final = (0.01, 0.045)  # [-] of the leg: how far aside a runner's feet stand, at least and at most
BALANCE_SPEEDS: Final = (1.0, 1.0)  # [-] of the slowest captured and the fastest walk; to 0.85, curves of 16 tip
SOLE_HALF: Final = 0.022  # [-] of the leg: how far beside the middle of a sole the pressure may be
UNLOADED: Final = 0.02  # [-] of a cycle, in which a foot that has just touched, or is about to leave, carries little
NUM_SWAYS: Final = 8  # harmonics of a sway, and of the forces it asks for: faster ones are noise of the means
NUM_BALANCE_STEPS: Final = 3


@dataclass(slots=True, eq=False)
class SpeedLines:
    """Units of one gait at two speeds, and the lines in speed through them."""

    gaits: GaitArrays  # with arrays of its own
    gait: int
    speeds: FloatArray  # (2, K) [1/s]
    skeleton: Skeleton
    leg_m: float

    @classmethod
    def copy(
        cls, gaits: GaitArrays, gait: str, parts: tuple[float, float], skeleton: Skeleton, leg_m: float
    ) -> SpeedLines:
        """Lines of copied arrays, between two speeds: parts of the slowest captured and of the fastest."""
        t = GAITS.index(gait)
        limits = np.broadcast_to(gaits.limits[t], gaits.slowest[:, t].shape)
        speeds = np.stack([parts[0] * gaits.slowest[:, t], parts[1] * limits])
        return cls(gaits._replace(base=gaits.base.copy(), lift=gaits.lift.copy()), t, speeds, skeleton, leg_m)

    def rows(self) -> FloatArray:
        """Units ``(2, K, N, D)`` at both speeds."""
        t = self.gait
        return self.gaits.base[:, t] + self.speeds[..., None, None] * self.gaits.lift[:, t, 0]

    def look_up(self, table: FloatArray) -> FloatArray:
        """Values ``(2, K)`` of a table ``(K, G)`` at both speeds."""
        every = range(len(table))
        return np.stack([np.interp(self.speeds[:, k], self.gaits.speeds, table[k, :]) for k in every], axis=1)

    def pose(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Centre of mass ``(2, K, N, 3)`` and joints ``(2, K, N, J, 3)`` of units, over leg length."""
        means = self.gaits.means
        wxyz = SO3(means) @ SO3.exp(rows[..., 3:].reshape(-1, len(means), 3))
        unit = Motion(self.skeleton, 1.0, self.leg_m * rows[..., :3].reshape(-1, 3), wxyz)
        positions = unit.joint_positions().reshape(*rows.shape[:-1], -1, 3)
        return centre_of_mass(unit).reshape(*rows.shape[:-1], 3) / self.leg_m, positions / self.leg_m

    def take_out(self, columns: slice, away: FloatArray) -> None:
        """Take the line in speed through ``away`` ``(2, K, ...)`` out of the gait, and of what it lacks to a stand."""
        base, lift, t = self.gaits.base, self.gaits.lift, self.gait
        slope = (away[1] - away[0]) / (self.speeds[1] - self.speeds[0])[:, None, None]
        level = away[0] - self.speeds[0][:, None, None] * slope
        base[:, t, :, columns] -= level
        lift[:, t, 0, :, columns] -= slope
        lift[:, t, 1, :, columns] += level


def balance_gaits(gaits: GaitArrays, skeleton: Skeleton, leg_m: float) -> GaitArrays:
    """Return gaits whose runs are level and whose walks sway as their feet can bear; tables are those of ``gaits``."""
    return balance_walks(level_runs(gaits, skeleton, leg_m), skeleton, leg_m)


def balance_walks(gaits: GaitArrays, skeleton: Skeleton, leg_m: float) -> GaitArrays:
    r"""Return gaits in whose walks the zero-moment point is over soles that stand, aside.

    Means of captured walks, and lines through few speeds, stand and sway beside their feet. With :math:`p` the
    zero-moment point of a pendulum as high as the centre of mass, and :math:`p^*` the nearest between the soles,

    .. math:: p = x - \frac{\bar y}{g}\,x'', \qquad \Delta x - \frac{\bar y}{g}\,\Delta x'' = p^* - p

    has one periodic solution: a sway by which :math:`p` comes to :math:`p^*`.
    The root takes its harmonics; its mean is taken by the legs, turned as a whole about the axis ahead.
    """
    lines = SpeedLines.copy(gaits, "walk", BALANCE_SPEEDS, skeleton, leg_m)
    legs = [[skeleton.index(f"{side}_{part}") for part in ("hip", "ankle")] for side in ("right", "left")]
    joints, t = [skeleton.index(name) for name in EFFECTORS], lines.gait
    start = lines.rows()
    rows, count = start.copy(), start.shape[2]
    phases = np.linspace(0.0, 1.0, count, endpoint=False)
    hertz = lines.look_up(gaits.frequency[:, t])[..., None]  # (2, K, 1)
    every = range(len(EVENTS))
    events: FloatArray = np.stack([lines.look_up(gaits.events[:, t, :, e]) for e in every])[..., None]  # (8, 2, K, 1)
    # (2, K, C) of the first harmonics, the mean among them: squared angular frequency over gravity on legs of length 1
    squares = (2.0 * np.pi * hertz * np.arange(NUM_SWAYS)) ** 2 * leg_m / GRAVITY
    for _ in range(NUM_BALANCE_STEPS):
        centres, p = lines.pose(rows)
        pendulum = 1.0 + centres[..., 1].mean(axis=2, keepdims=True) * squares
        waves = np.fft.rfft(centres[..., 0], axis=2)[:, :, :NUM_SWAYS]
        pressure = np.fft.irfft(pendulum * waves, count, axis=2)
        # Between the soles that carry: each where it is in the middle of its flat stance
        low, high = np.full(pressure.shape, np.inf), np.full(pressure.shape, -np.inf)
        for e, joint in enumerate(joints):
            first = 4 * (e // 2) + e % 2  # strike of the ankle or the ball; they leave two events later
            middle = np.floor(0.5 * (events[4 * (e // 2) + 1] + events[4 * (e // 2) + 2]) * count).astype(np.int64)
            place = np.take_along_axis(p[..., joint, 0], middle % count, axis=2)
            strike: FloatArray = events[first] + UNLOADED
            leaves: FloatArray = events[first + 2] - UNLOADED
            carries = np.mod(phases - strike, 1.0) <= leaves - strike
            low = np.where(carries, np.minimum(low, place - SOLE_HALF), low)
            high = np.where(carries, np.maximum(high, place + SOLE_HALF), high)
        away = np.where(low <= high, np.clip(pressure, low, high) - pressure, 0.0)
        waves = np.fft.rfft(away, axis=2)[:, :, :NUM_SWAYS] / pendulum
        aside = waves[:, :, :1].real / count
        waves[:, :, 0] = 0.0
        rows[..., 0] += np.fft.irfft(waves, count, axis=2)
        for hip, ankle in legs:
            height = (p[..., hip, 1] - p[..., ankle, 1]).mean(axis=2, keepdims=True)
            rows[..., 3 + 3 * hip + 2] -= aside / height
            rows[..., 3 + 3 * ankle + 2] += aside / height
    lines.take_out(slice(0, start.shape[-1]), start - rows)
    return lines.gaits


def level_runs(gaits: GaitArrays, skeleton: Skeleton, leg_m: float) -> GaitArrays:
    """Return gaits in whose runs both feet stand under the body, and the centre of mass goes on evenly above them.

    Means of captured runs float or plunge, and lines through few speeds put their feet beside the body. The engine adds
    the path that gravity and the forces of a stance ask for (:func:`marey.locomotion.model.synthesis.add_bounce`).
    Stances are those of the tables of events.
    """
    lines = SpeedLines.copy(gaits, "run", LEVEL_SPEEDS, skeleton, leg_m)
    joints = np.array([skeleton.index(name) for name in EFFECTORS]).reshape(2, 2)
    hips = [skeleton.index(f"{side}_hip") for side in ("right", "left")]
    count = gaits.base.shape[2]
    first, last = (round(part * count) for part in FLAT_PHASES)
    flat = np.arange(first, last + 1, dtype=np.int64)
    down = np.stack([flat, (flat + count // 2) % count])  # (2, S) when the right and the left sole come down
    # Legs are turned as a whole about the axes ahead and across, until both feet stand in the same places.
    centres, p = lines.pose(lines.rows())
    feet = np.stack([p[..., joints[s], :].mean(axis=-2) - centres for s in (0, 1)])  # (2, 2, K, N, 3)
    high = float(p[..., hips, 1].mean() - p[..., joints, 1].mean())
    aside = np.stack([feet[s, ..., down[s], 0].mean(axis=0) for s in (0, 1)])
    half = np.clip(0.5 * (aside[1] - aside[0]), *HALF_STEP_WIDTHS)
    middle = FORCE_MIDDLE * lines.look_up(gaits.events[:, lines.gait, :, 3]) * count  # (2, K) frame, between two
    low = middle.astype(np.int64)
    for s, place in enumerate((-half, half)):
        at = 3 + 3 * hips[s]
        turns = np.zeros((*half.shape, 1, 3))
        before, after = (
            np.take_along_axis(feet[s, ..., 2], (low[..., None] + s * (count // 2) + k) % count, axis=-1)
            for k in (0, 1)
        )
        then = before + (middle - low)[..., None] * (after - before)
        turns[..., 0] = (np.clip(then, -FEET_BEHIND[1], -FEET_BEHIND[0]) - then) / high
        turns[..., 0, 2] = (aside[s] - place) / high
        lines.take_out(slice(at, at + 3), turns)
    # The centre of mass without what is not its mean, and as high as the soles that come down ask
    centres, p = lines.pose(lines.rows())
    rest = skeleton.rest_positions()[joints][..., 1] / leg_m
    heights = np.mean(
        [(p[..., joints[s], 1] - rest[s]).min(axis=-1)[..., down[s]].mean(axis=-1) for s in (0, 1)], axis=0
    )
    away = centres - centres.mean(axis=2, keepdims=True)
    away[..., 1] += heights[..., None]
    lines.take_out(slice(0, 3), away)
    return lines.gaits


SHIPPED_MODEL: Final = Path(__file__).parents[1] / "data" / "locomotion.safetensors"
FORMAT: Final = TensorFormat(
    "marey-locomotion", "locomotion model", 1, "Give a file that `marey fit locomotion` wrote, or write it again."
)
JUMP_PREFIX: Final = "jump/"
TIMING_PREFIX: Final = "frequency/"
COMPONENT_PARTS: Final = ("mean", "directions", "variances", "shares")  # of a level of the tree
ADDED_PREFIX: Final = "added/"
ADDED_PARTS: Final = ("base", "lift", "slowest")  # of a style that was added; the rest is that of every style

AnyPath = str | os.PathLike[str]
Tensors = dict[str, NDArray[Any]]


def load_model(path: AnyPath | None = None) -> LocomotionModel:
    """Read a locomotion model; the one that ships with marey by default.

    Raises:
        MissingFileError: there is no such file.
        FormatError: the file is damaged, holds something else, or was written by a newer marey.
    """
    file = SHIPPED_MODEL if path is None else Path(path)
    tensors, facts = FORMAT.read(file)
    try:
        styles = tuple(str(name) for name in facts["styles"])
        scale = float(tensors["scale"][0])
        skeleton, leg_m = HUMAN if scale == 1.0 else HUMAN.scaled(scale), HUMAN_LEG_M * scale
        # Gaits are multiplied out again from the tree and the standing poses.
        num_added = len(tensors.get(f"{ADDED_PREFIX}base", ()))
        tree = _read_tree(tensors, list(styles[: len(styles) - num_added]))
        named = ("standing", "means", "limits", "events", "rest_heights")
        standing, means, limits, events, rest = (_to_double(tensors[name]) for name in named)
        gaits = expand_gait_arrays(tree, standing, means, limits, num_frames=int(facts["num_frames"]))
        found = {name: _to_double(tensors[f"{TIMING_PREFIX}{name}"]) for name in TIMINGS}
        fitted = slice(0, len(tree.people))
        tables = gaits._replace(events=events[fitted], frequency=found["stance"][fitted])
        gaits = balance_gaits(tables, skeleton, leg_m)._replace(events=events, frequency=found["stance"])
        if num_added:
            parts = {part: _to_double(tensors[f"{ADDED_PREFIX}{part}"]) for part in ADDED_PARTS}
            for part in ("standing", "slope", "offset", "has_gait"):
                parts[part] = np.repeat(getattr(gaits, part)[:1], num_added, axis=0)
            gaits = gaits._replace(**{n: np.concatenate([getattr(gaits, n), more]) for n, more in parts.items()})
        # Jump models by kind; none in a file without them
        jumps: dict[str, JumpModel] = {}
        for kind in facts["jumps"]:
            start = f"{JUMP_PREFIX}{kind}/"
            arrays = {name.removeprefix(start): array for name, array in tensors.items() if name.startswith(start)}
            jumps[str(kind)] = JumpModel.from_arrays(arrays)
        return LocomotionModel(
            skeleton,
            leg_m,
            styles,
            {str(name): float(weight) for name, weight in facts["default_style"].items()},
            gaits,
            tree,
            rest,
            found,
            np.asarray(tensors["lent"], dtype=np.bool_),
            jumps,
            cast(Mapping[str, Any], facts["info"]),
        )
    except (MareyError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise FORMAT.damage_error(file, error) from error


ROUNDING_RAD: Final = 1e-12  # [rad] below it a standing joint is straight


def standing_rows(model: LocomotionModel) -> FloatArray:
    """Rows ``(K, D)`` of the standing poses."""
    gaits = model.gaits
    rows = (gaits.base[:, 0] + gaits.lift[:, 0, 1]).mean(axis=1)
    # A sum whose terms cancel leaves rounding, which would change from file to file.
    return np.where(np.abs(rows) < ROUNDING_RAD, 0.0, rows)


def to_single(array: FloatArray) -> NDArray[np.float32]:
    """Single precision: 1e-7 of a radian, a hundred times below what anybody measured."""
    return np.asarray(array, dtype=np.float32)


def round_tree(tree: HierarchicalModel) -> HierarchicalModel:
    """Return a tree as it will be read back from a file, so that tables are measured on what is shipped."""
    return _read_tree(_tree_tensors(tree), list(tree.people))


_HIP, _KNEE, _ANKLE = (HUMAN.rest_positions()[HUMAN.index(f"right_{part}")] for part in ("hip", "knee", "ankle"))
HUMAN_LEG_M: Final = float(np.linalg.norm(_HIP - _KNEE) + np.linalg.norm(_KNEE - _ANKLE) + _ANKLE[1])
"""Leg length [m] of the canonical human, hip joint to floor."""


def _tree_tensors(tree: HierarchicalModel) -> Tensors:
    tensors: Tensors = {"main/mean": to_single(tree.main.mean), "main/lifting": to_single(tree.main.lifting)}
    tensors |= {"main/scales": to_single(tree.main.scales), "main/variances": tree.main.variances}
    tensors["main/shares"] = tree.main.shares
    for name, person in tree.people.items():
        tensors |= {f"person/{name}/{part}": getattr(person.space, part) for part in COMPONENT_PARTS}
        for gait, leaf in person.leaves.items():
            key = f"person/{name}/{gait}"
            tensors |= {f"{key}/{part}": getattr(leaf.space, part) for part in COMPONENT_PARTS}
            tensors[f"{key}/law"] = np.stack([leaf.law.standing, leaf.law.slope, leaf.law.offset])
            tensors[f"{key}/slowest"] = np.array([leaf.law.slowest, leaf.law.power])
    return tensors


def _read_tree(tensors: Mapping[str, NDArray[Any]], people: list[str]) -> HierarchicalModel:
    scales = _to_double(tensors["main/scales"])
    lifting = _to_double(tensors["main/lifting"])
    main = Components(
        _to_double(tensors["main/mean"]),
        lifting.T * scales[:, None],
        scales,
        _to_double(tensors["main/variances"]),
        _to_double(tensors["main/shares"]),
    )
    # Every person has a level of its own, with a leaf for each gait that was captured or lent.
    found: dict[str, Person] = {}
    for name in people:
        leaves: dict[str, Leaf] = {}
        for gait in GAITS:
            key = f"person/{name}/{gait}"
            if f"{key}/law" in tensors:
                standing, slope, offset = _to_double(tensors[f"{key}/law"])
                slowest, power = _to_double(tensors[f"{key}/slowest"]).tolist()
                law = SpeedLaw(standing, slope, offset, slowest, power)
                leaves[gait] = Leaf(_read_components(tensors, key), law)
        found[name] = Person(_read_components(tensors, f"person/{name}"), leaves)
    return HierarchicalModel(main, found)


def _read_components(tensors: Mapping[str, NDArray[Any]], key: str) -> Components:
    mean, directions, variances, shares = (_to_double(tensors[f"{key}/{part}"]) for part in COMPONENT_PARTS)
    return Components(mean, directions, np.ones(len(mean)), variances, shares)


def _to_double(array: NDArray[Any]) -> FloatArray:
    out = np.asarray(array, dtype=np.float64)
    if not np.isfinite(out).all():
        raise InputError("a tensor holds a number that is not finite")
    out.setflags(write=False)
    return out
