"""What a tracker gives back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.lie import SO3
from marey.motion import Motion
from marey.tracking._filter import TrackFrame
from marey.tracking._particles import TrackingProblem, TrackState
from marey.tracking._points import track_points


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FilterResult:
    """A tracked clip: one array per quantity, frames first."""

    motion: Motion
    tool_names: tuple[str, ...]  # (T,)
    states: tuple[TrackState, ...]  # (F,)
    effective_sizes: FloatArray  # (F,) between 1 and the number of particles
    resampled: BoolArray  # (F,)
    distances_px: FloatArray  # (F,) [px] root mean square distance of the best particle to what was seen
    seconds: FloatArray  # (F,) wall time of each frame

    @property
    def tools(self) -> FloatArray:
        """Estimated places of the tools, ``(F, T, 3)`` [m] in world."""
        return track_points(self.motion, self.tool_names)

    @property
    def num_resamplings(self) -> int:
        """In how many frames the particles were drawn anew."""
        return int(self.resampled.sum())

    @property
    def num_lost(self) -> int:
        """In how many frames the track was lost."""
        return sum(state is TrackState.LOST for state in self.states)

    @property
    def frames_per_second(self) -> float:
        """Frames tracked per second of wall time."""
        return len(self.seconds) / float(self.seconds.sum())

    def tool_errors(self, truth: Motion) -> FloatArray:
        """Distance of each tool to where it really was, ``(F, T)`` [m]."""
        if truth.num_frames != self.motion.num_frames:
            raise InputError(f"the truth has {truth.num_frames} frames, the track {self.motion.num_frames}")
        return np.linalg.norm(self.tools - track_points(truth, self.tool_names), axis=-1)

    def __repr__(self) -> str:
        return (
            f"FilterResult({self.motion.num_frames} frames, {self.num_lost} lost, "
            f"{self.num_resamplings} resamplings, {self.frames_per_second:.0f} frames/s)"
        )


def collect_result(scene: TrackingProblem, frames: Iterable[TrackFrame], name: str) -> FilterResult:
    """Collect the frames of a track."""
    kept = [(f.state, f.wxyz, f.effective_size, f.resampled, f.distance_px, f.seconds) for f in frames]
    states, wxyz, sizes, resampled, distances, seconds = zip(*kept, strict=True)
    roots = np.tile(scene.start.root_position, (len(kept), 1))
    motion = Motion(scene.start.skeleton, scene.observations.rate_hz, roots, SO3(np.array(wxyz)), name=name)
    return FilterResult(
        motion,
        scene.tools.names,
        tuple(states),
        np.array(sizes),
        np.array(resampled, dtype=np.bool_),
        np.array(distances),
        np.array(seconds),
    )
