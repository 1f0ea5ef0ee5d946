"""How a motion graph is built and searched: every threshold in one place."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from marey.base import InputError

NOT_NUMBERS = ("mirror", "metric", "culling")
METRICS = ("lee2002", "kovar2002")
CULLINGS = ("dijkstra", "one-jump")


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """Settings of a build; a graph file keeps them."""

    rate_hz: float = 30.0  # of the poses ([Safonova2006]_ §4.2)
    cutoff_hz: float = 8.0  # low-pass of the clips
    mirror: bool = False  # every clip also with left and right exchanged
    metric: str = "lee2002"  # or "kovar2002"
    density: float = 12.0  # similar poses that a walking pose has: sets the threshold
    cross: float = 3.0  # threshold between behaviours, times the threshold within one
    velocity_weight: float = 10.0 / 900.0  # [s²] of squared joint velocities in the metric
    foot_weight: float = 4.0  # [1/m] of planted feet in the metric; 0 leaves them out
    foot_yaw_weight: float = 2.0  # [-] and of their headings
    min_apart_s: float = 5.0 / 30.0  # frames of one clip nearer than this are no transition
    max_foot_jump_m: float = 0.3  # a planted foot that two poses have farther apart would need a step of its own
    foot_price: float = 10.0  # [1/m] of what an edge moves a planted foot by: 10 cm cost as much as a step
    links: int = 64  # most transitions of one pose within its behaviour, and as many to others
    cross_links: int = 30  # fewest transitions between two behaviours, if poses are near enough
    reach: float = 12.0  # thresholds up to which poses are joined that would else be lost with their event
    transition_price: float = 0.5  # of every transition, in median costs of a step, against needless transitions
    transition_weight: float = 0.5  # of -ln p, in the same unit
    effort_per_s: float = 0.25  # [(100 N m)²] cost of time: standing still is not free
    culling: str = "dijkstra"  # lossless; "one-jump" allows one transition in a phase
    merge: float = 2.0  # states nearer than this times the threshold become one
    gap_share: float = 0.6  # of the gaps inside a state that is charged: about half of all paths stay in their clip
    yaw_bin_rad: float = float(np.deg2rad(5.0))  # flights that land in other bins are kept apart
    pick_height_m: float = 0.62  # a wrist that goes lower picks something up
    max_residual_m: float = 0.08  # [m] stances with a larger displacement of the foot are split
    turn_bin_rad: float = float(np.deg2rad(20.0))  # of two edges of a state that turn and step alike the cheaper stays
    step_bin_m: float = 0.20  # [m] and so for steps; 0 keeps all edges
    spare: int = 6  # cheapest edges of a state that always stay
    pair_limit: float = 5.0  # thresholds up to which two states are blended
    event_pair_limit: float = 20.0  # the same for states near an event

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in NOT_NUMBERS and not (np.isfinite(value) and value >= 0.0):
                raise InputError(f"{field.name} is {value}", "Give a number that is not negative")
        for name, known in (("metric", METRICS), ("culling", CULLINGS)):
            if getattr(self, name) not in known:
                raise InputError(f"{name} is '{getattr(self, name)}'", f"It is one of {', '.join(known)}")
        if not self.rate_hz > 0.0:
            raise InputError("rate_hz is 0", "Give frames per second")


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Settings of a search, beside those that :func:`search_graph` takes by name."""

    slack_m: float = 0.12  # by which footsteps may move hand and root of a pick towards their targets; 0: as captured
    arm_m: float = 0.05  # that arm and spine do of what a hand is off, where footsteps move
    jump_tolerance_m: float = 0.4  # within which a jump passes over its place
    leap_height_m: float = 0.3  # of boxes that are jumped over where they close the path
    body_radius_m: float = 0.25  # of a body that must not touch walls
    table_radius_m: float = 0.18  # of a body that stands at a table, which is lower than elbows and shoulders
    arm_room_m: float = 0.12  # beside walls, for hands that swing, unless it closes the way
    foot_radius_m: float = 0.09  # half a sole: the middles of planted feet keep this far from water
    bank_m: float = 0.03  # and this much farther: joins and plants that are held move a foot by centimetres
    clearance_m: float = 0.04  # from the root to the edge of its corridor: cells are coarse, joints are smoothed
    stray_m: float = 1.0  # that a way through a place may be longer than the shortest: room to turn in
    stray_share: float = 0.1  # [-] and this part of the shortest: nobody walks round the far end of a wall
    direct_share: float = 0.4  # of the budget that may be spent before longer ways are looked at, if none was found
    unblended_share: float = 0.8  # of the budget that may be spent before blends are looked at
    calm_share: float = 0.7  # and before jumps are allowed where nothing asks for them, if no way was found
    turn_rad: float = 0.35  # [rad] by which a step may turn more than its clip does, if no way was found; 0: none may
    stretch_m: float = 0.05  # by which a step may be longer or shorter than in its clip, if no way was found
    warp_price: float = 1.0  # [-] of the cost of a step, for so large a turn or stretch

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (np.isfinite(value) and value >= 0.0):
                raise InputError(f"{field.name} is {value}", "Give a number that is not negative")


AS_CAPTURED = SearchSettings(slack_m=0.0, arm_m=0.0, turn_rad=0.0, stretch_m=0.0)
"""Steps are as captured and blended, as in [Safonova2006]_."""
