"""Recordings of a simulation: a clip, and the last seconds of energies, momenta and support."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError
from marey.control import next_support
from marey.control.support import hull_distances
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.simulate import Recorder, Simulator

MAX_TAKE_S: Final = 120.0


class SimulationRecording:
    """Steps of one length, made by one simulator after another."""

    def __init__(self, simulator: Simulator, step_s: float) -> None:
        self._step_s = step_s
        self._parts: list[Recorder] = [Recorder(simulator)]
        self._counts = [0]

    @property
    def seconds(self) -> float:
        """How long it is by now."""
        return self._step_s * sum(self._counts)

    def go_on(self, simulator: Simulator) -> None:
        """From now on another simulator makes the steps; it begins where the last one stopped."""
        self._parts.append(Recorder(simulator))
        self._counts.append(0)

    def record(self) -> None:
        """Keep the step that was just made, up to MAX_TAKE_S."""
        if self.seconds < MAX_TAKE_S:
            self._parts[-1].record()
            self._counts[-1] += 1

    def motion(self, name: str) -> Motion:
        """The take as a clip with its contact track.

        Raises:
            InputError: nothing was recorded.
        """
        clips = [part.motion() for part, count in zip(self._parts, self._counts, strict=True) if count]
        if not clips:
            raise InputError("nothing was recorded", "Press 'Record' and let time pass")
        first, later = clips[0], clips[1:]
        roots = np.concatenate([first.root_positions, *(clip.root_positions[1:] for clip in later)])
        wxyz = np.concatenate([first.rotations.wxyz, *(clip.rotations.wxyz[1:] for clip in later)])
        # The first frame of each later track is the last of the one before
        tracks = [clip.contacts for clip in clips if clip.contacts is not None]
        joined = np.concatenate([tracks[0].active, *(track.active[1:] for track in tracks[1:])])
        contacts = Contacts(tracks[0].names, joined)
        return Motion(first.skeleton, first.rate_hz, roots, SO3(wxyz), contacts=contacts, name=name)


EVERY: Final = 4  # steps from one point of the plots to the next
KEPT: Final = 150  # points
COLUMNS: Final = ("time", "kinetic", "potential", "total", "px", "py", "pz", "lx", "ly", "lz")
LEAST_N: Final = 5.0  # [N] shorter arrows are not drawn


class EnergyTrace:
    """A window that moves with time; steps in between are left out."""

    def __init__(self) -> None:
        self._rows: deque[FloatArray] = deque(maxlen=KEPT)
        self._skipped = EVERY

    def note(self, time_s: float, simulator: Simulator, ground_m: float) -> None:
        """Look at the simulator after a step; heights count from the ground."""
        self._skipped += 1
        last = simulator.steps_made[-1]
        if self._skipped < EVERY or last.system is None:
            return
        self._skipped = 0
        here = last.system.mechanics
        momentum = here.momentum_matrix() @ last.state.velocity
        over = here.com - np.array([0.0, ground_m, 0.0])
        potential = -simulator.body.mass_kg * float(simulator.gravity @ over)
        kinetic = last.state.kinetic_j
        energies = (time_s, kinetic, potential, kinetic + potential)
        self._rows.append(np.concatenate([energies, momentum[3:], momentum[:3]]))

    def table(self) -> FloatArray:
        """Rows ``(N, 10)`` of COLUMNS; two of zeros while there is nothing to show."""
        return np.array(self._rows) if len(self._rows) > 1 else np.zeros((2, len(COLUMNS)))

    def clear(self) -> None:
        """Begin anew."""
        self._rows.clear()
        self._skipped = EVERY


@dataclass(frozen=True, slots=True, eq=False)
class SupportState:
    """Support of a figure and its centre of mass over it."""

    com: FloatArray  # (3,) [m]
    foot: FloatArray  # (3,) [m] of the ground straight under the centre of mass
    corners: FloatArray  # (h, 3) [m] of the support, round it; may be empty
    margin_m: float | None  # from the centre of mass to the edge; negative outside, None without a support


def measure_support(simulator: Simulator, normal: FloatArray, pivot: FloatArray) -> SupportState:
    """How a figure stands now, on the plane through a pivot."""
    here = simulator.mechanics()
    support = next_support(None, simulator, here, 1.0)
    com, hull = here.com, np.zeros((0, 2)) if support is None else support.hull
    corners = _on_plane(hull, normal, pivot)
    foot = _on_plane(com[None, [0, 2]], normal, pivot)[0]
    # Distance inside the hull; of a line or a point, minus the distance to its middle
    margin = None if not len(hull) else -float(np.linalg.norm(com[[0, 2]] - hull.mean(axis=0)))
    margin = margin if len(hull) < 3 else float(hull_distances(hull, com[[0, 2]])[1].min())
    return SupportState(com, foot, corners, margin)


def _on_plane(places: FloatArray, normal: FloatArray, pivot: FloatArray) -> FloatArray:
    """Points ``(n, 3)`` of the plane over places (x, z)."""
    x, z = places[:, 0], places[:, 1]
    y = pivot[1] - (normal[0] * (x - pivot[0]) + normal[2] * (z - pivot[2])) / normal[1]
    return np.stack([x, y, z], axis=1)
