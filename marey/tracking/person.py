"""Track a person of whom nothing is known: body, poses and place from key points alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, Result
from marey.kinematics import JointLimits, posing_limits
from marey.models import PoseModel
from marey.motion import Motion
from marey.skeleton import HUMAN, Pose, Skeleton, contact_points
from marey.tracking.body import fit_body, load_people_poses, measure_segments, triangulate
from marey.tracking.observation import Observations
from marey.tracking.prior import PriorTrack, PriorTracker

FLOOR_PERCENT: Final = 5.0  # [%] of the frames in which the lowest foot is said to stand


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PersonTrack(Result):
    """A tracked person."""

    track: PriorTrack
    body_source: str  # "given", "stature", "triangulated" or "assumed": where the size comes from

    @property
    def motion(self) -> Motion:
        """The motion, on the body that was found."""
        return self.track.motion

    @property
    def frame_errors_px(self) -> FloatArray:
        """Mean distance of the seen points of each frame, ``(F,)`` [px]; 0 where nothing was seen."""
        seen = self.track.weights > 0.0
        return self.track.errors.sum(axis=1) / np.maximum(seen.sum(axis=1), 1)

    @property
    def states(self) -> tuple[str, ...]:
        """``"tracked"``, ``"occluded"`` or ``"lost"``, for each frame."""
        pairs = zip(self.track.is_predicted.tolist(), self.track.is_lost.tolist(), strict=True)
        return tuple("occluded" if unseen else "lost" if lost else "tracked" for unseen, lost in pairs)

    def __repr__(self) -> str:
        return f"PersonTrack({self.track!r}, body {self.body_source})"


@dataclass(frozen=True, slots=True, eq=False)
class PersonTracker:
    """Settings of a tracker of whole people: shipped pose model and anatomical limits unless others are given.

    The size of a body that one camera sees cannot be told from its distance. It comes from the ``body`` or from the
    ``stature_m``, or is that of HUMAN; soles on the floor tell the distance of the feet. Two cameras measure the
    segments and need no floor.
    """

    model: PoseModel | None = None
    limits: JointLimits | None = None  # of the joints of the model
    has_limits: bool = True  # take anatomical limits where none are given
    body: Skeleton | None = None
    stature_m: float | None = None
    floor_m: float | None = 0.0  # [m] height of the floor; None: unknown, as where a camera is assumed
    noise_px: float = 3.0  # [px] as in PriorTracker
    upright_rad: float | None = 0.3  # [rad] as in PriorTracker
    spring: float = 1.0  # [-] as in PriorTracker; chosen on clips of other people than those of the model
    max_sigma: float = 5.0  # [-] as in PriorTracker

    def __post_init__(self) -> None:
        if self.stature_m is not None and not 0.3 <= self.stature_m <= 3.0:
            raise InputError(f"a stature of {self.stature_m} m", "Give metres")

    def run(self, views: Observations | Sequence[Observations], start: Pose | None = None) -> PersonTrack:
        """Find the motion of a person from what one camera or several saw.

        Raises:
            InputError: the cameras saw different frames, or no frame shows enough points.
        """
        seen = (views,) if isinstance(views, Observations) else tuple(views)
        model = self.model or load_people_poses()
        body, source = self.body, "given"
        if start is not None:
            body = start.skeleton
        elif body is None:
            body, source = self._find_body(seen, model.skeleton)
        limits = self.limits
        if limits is None and self.has_limits:
            limits = posing_limits(body)
        # One camera tells the depth of feet by where they stand; several need no floor
        tracker = PriorTracker(
            model,
            limits,
            self.noise_px,
            spring=self.spring,
            max_sigma=self.max_sigma,
            upright_rad=self.upright_rad,
            floor_m=self.floor_m if len(seen) == 1 else None,
        )
        track = tracker.run(seen, start, body=body)
        if self.floor_m is not None or start is not None:
            return PersonTrack(track, source)
        # The height of an assumed camera means nothing: the lowest feet stand at zero
        motion = track.motion
        soles = contact_points(body).positions(*motion.joint_frames())[..., 1].min(axis=1)
        roots = motion.root_positions - (0.0, float(np.percentile(soles, FLOOR_PERCENT)), 0.0)
        return PersonTrack(replace(track, motion=replace(motion, root_positions=roots)), source)

    def _find_body(self, views: Sequence[Observations], skeleton: Skeleton) -> tuple[Skeleton, str]:
        """Body of the person: by stature, by triangulated segments, or as the model has it."""
        if self.stature_m is not None:
            tall = float(
                np.ptp(np.concatenate([skeleton.rest_positions(), skeleton.rest_positions() + skeleton.tips])[:, 1])
            )
            return skeleton.scaled(self.stature_m / tall), "stature"
        if len(views) > 1 and skeleton.names == HUMAN.names:
            lengths = measure_segments(*triangulate(views))
            if lengths:
                return fit_body(lengths), "triangulated"
        return skeleton, "assumed"
