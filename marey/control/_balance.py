"""Balance: a figure that keeps standing, on both feet or on one, while it is pushed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from marey.control._reference_stand import stand
from marey.control._tasks import ControlTask, Drive
from marey.control._track import DT_S, MODES, TrackResult, TrackWeights, figure_of, track_result
from marey.dynamics import Body
from marey.models import PoseModel
from marey.motion import Motion
from marey.simulate import Ground, Push, Simulator
from marey.skeleton import Pose


def balance(
    source: Motion | Pose,
    *,
    seconds: float = 60.0,
    feet: str = "both",
    pushes: Iterable[Push] = (),
    momentum: bool = True,
    model: PoseModel | int | None = MODES,
    body: Body | None = None,
    weights: TrackWeights | None = None,
    ground: Ground | None = None,
    simulator: Simulator | None = None,
    tasks: Iterable[ControlTask | Drive] = (),
    dt: float = DT_S,
    on_step: Callable[[Simulator], None] | None = None,
) -> TrackResult:
    """Let a figure stand by forces from inside alone, and push it.

    The features of [Tournier2011]_ §15.2: the centre of mass over the feet, at its height, angular momentum towards
    zero, feet where they stand; the support is the hull of the soles, and the capture point is what is held inside.

    Args:
        source: a pose, or a clip with one on both feet.
        seconds: how long.
        feet: "both", or the foot to stand on: the other is lifted after 1.5 s.
        pushes: forces from outside.
        momentum: hold the angular momentum; without it arms and trunk go where they like.
        model: coordinates that move: a model, a number of modes (of the clip and of stands) or None for all joints.
        body: masses; by default those of the skeleton.
        weights: how much each part counts.
        ground: by default level, with the friction of shoes.
        simulator: one of your own, in place of ``model``, ``body`` and ``ground``.
        tasks: more tasks, such as a hand that reaches.
        dt: length of a step [s].
        on_step: called after each step.
    """
    clip = stand(source, seconds, feet=feet)
    if simulator is None:
        whole = source if isinstance(source, Motion) else clip
        simulator = figure_of(whole, model, body=body, ground=ground, dt=dt)
    weights = TrackWeights() if weights is None else weights
    if not momentum:
        weights = replace(weights, momentum=0.0)
    return track_result(
        clip, pushes=pushes, dt=dt, seconds=seconds, weights=weights, simulator=simulator, tasks=tasks, on_step=on_step
    )
