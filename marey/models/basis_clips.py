"""Selection of clips for a behaviour by contacts and direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from marey.base import FloatArray, InputError
from marey.contacts import contact_phases
from marey.motion import Motion, headings

FEWEST = 3  # a space of one clip is too stiff: [Safonova2006]_ §3.3
POOL = 2  # [-] times as many near clips as asked for are looked at for variety


@dataclass(frozen=True, slots=True, eq=False)
class ClipFeatures:
    """Contact and direction features of a clip or of a request."""

    phases: tuple[str, ...]  # kinds of contact phases in time: ("double", "flight", "double")
    forward_m: float  # [m] from the first frame to the last, along the first facing
    left_m: float  # [m]
    turn_rad: float  # [rad] change of heading
    rise_m: float  # [m] how far the root rises above where it starts

    def vector(self) -> FloatArray:
        """Return the numbers that are compared ``(4,)``."""
        return np.array([self.forward_m, self.left_m, self.turn_rad, self.rise_m])


@dataclass(frozen=True, slots=True, eq=False)
class ClipChoice:
    """Clips chosen for a behaviour, the nearest first."""

    indices: tuple[int, ...]  # into the candidates
    is_relaxed: bool  # whether a double support had to be added to or dropped from the wanted contacts
    warning: str  # empty if all is well


def clip_features(motion: Motion) -> ClipFeatures:
    """Measure a clip: its contact phases, displacement in its first facing, turn and rise."""
    yaw = headings(motion)
    x, z = (motion.root_positions[-1] - motion.root_positions[0])[[0, 2]]
    s, c = np.sin(yaw[0]), np.cos(yaw[0])
    rise = float(motion.root_positions[:, 1].max() - motion.root_positions[0, 1])
    phases = tuple(phase.kind for phase in contact_phases(motion))
    return ClipFeatures(phases, float(s * x + c * z), float(c * x - s * z), float(yaw[-1] - yaw[0]), rise)


def choose_clips(candidates: Sequence[ClipFeatures], wanted: ClipFeatures, *, count: int = 10) -> ClipChoice:
    """Choose clips whose contacts contain those wanted, near in displacement and turn, yet different from one another.

    [Safonova2006]_ §3.3 uses contacts and the overall direction; distances are in deviations of the candidates.

    Raises:
        InputError: no candidate has this sequence of contacts, even with one double support more or less.
    """
    if count < 1:
        raise InputError(f"{count} clips to choose", "Ask for one at least")
    matching = [i for i, clip in enumerate(candidates) if _contains_phases(clip.phases, wanted.phases)]
    is_relaxed = not matching
    if is_relaxed:
        # The same contacts with one double support less, or one more
        phases = wanted.phases
        fewer = [phases[:i] + phases[i + 1 :] for i, kind in enumerate(phases) if kind == "double" and len(phases) > 1]
        more = [(*phases[:i], "double", *phases[i:]) for i in range(len(phases) + 1)]
        near = fewer + more
        matching = [i for i, clip in enumerate(candidates) if any(_contains_phases(clip.phases, p) for p in near)]
    if not matching:
        raise InputError(f"no clip has the contacts {'|'.join(wanted.phases)}", "Add clips of this behaviour")
    # The nearest, then of the near ones always that which is farthest from all chosen
    table = np.array([candidates[i].vector() for i in matching])
    scale = np.maximum(table.std(axis=0), 1e-3)
    away = np.linalg.norm((table - wanted.vector()) / scale, axis=1)
    pool: list[int] = np.argsort(away, kind="stable")[: POOL * count].tolist()
    chosen = [pool.pop(0)]
    while pool and len(chosen) < count:
        gaps = [min(float(np.linalg.norm((table[i] - table[j]) / scale)) for j in chosen) for i in pool]
        chosen.append(pool.pop(int(np.argmax(gaps))))
    chosen = tuple(matching[i] for i in sorted(chosen, key=lambda i: away[i]))
    warning = "" if len(chosen) >= FEWEST else f"a behaviour of {len(chosen)} clips may give unnatural motions"
    return ClipChoice(chosen, is_relaxed, warning)


def _contains_phases(phases: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    size = len(wanted)
    return any(phases[i : i + size] == wanted for i in range(len(phases) - size + 1))
