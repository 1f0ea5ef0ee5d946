"""What is recorded of a simulation, over changes of its settings, as one clip."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import InputError
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
        return Motion(first.skeleton, first.rate_hz, roots, SO3(wxyz), contacts=_join_contacts(clips), name=name)


def _join_contacts(clips: list[Motion]) -> Contacts | None:
    """Contact tracks one after another; the first frame of each is the last of the one before."""
    tracks = [clip.contacts for clip in clips if clip.contacts is not None]
    if not tracks:
        return None
    return Contacts(tracks[0].names, np.concatenate([tracks[0].active, *(track.active[1:] for track in tracks[1:])]))
