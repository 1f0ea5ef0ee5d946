"""Balance: a figure that keeps standing, on both feet or on one, while it is pushed."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Unpack

from marey.control._reference_stand import make_stand
from marey.control._track import TrackingResult, TrackOptions, TrackWeights, resolve_simulator, solve_tracking
from marey.motion import Motion
from marey.skeleton import Pose

STAND_S: Final = 60.0  # [s]


def track_balance(
    source: Motion | Pose,
    *,
    feet: str = "both",
    momentum: bool = True,
    **options: Unpack[TrackOptions],
) -> TrackingResult:
    """Let a figure stand by forces from inside alone, and push it.

    The features of [Tournier2011]_ §15.2: the centre of mass over the feet, at its height, angular momentum towards
    zero, feet where they stand; the support is the hull of the soles, and the capture point is what is held inside.
    Where a push drives it out, a step catches the figure.

    Args:
        source: a pose, or a clip with one on both feet.
        feet: "both", or the foot to stand on: the other is lifted after 1.5 s.
        momentum: hold the angular momentum; without it arms and trunk go where they like.
        options: those of :func:`track_result`; a number of modes is of the clip and of stands. By default it stands
            for a minute.
    """
    seconds = options.get("seconds")
    seconds = STAND_S if seconds is None else seconds
    clip = make_stand(source, seconds, feet=feet)
    simulator = resolve_simulator(source if isinstance(source, Motion) else clip, options)
    weights = options.get("weights") or TrackWeights()
    if not momentum:
        weights = replace(weights, momentum=0.0)
    chosen: TrackOptions = {**options, "seconds": seconds, "simulator": simulator, "weights": weights}
    return solve_tracking(clip, **chosen)
