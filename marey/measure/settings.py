"""Thresholds of the meter, each with its unit and reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MeterSettings:
    """What counts as near, fast, bent backwards, a jump.

    None of them is a setting of an engine, and no contact track is read. The limits above which a figure is a fault
    (``most_*``) lie outside what the captures of the typical table reach; ``docs/measure.md`` prints both.
    """

    smoothing_hz: float = 12.0  # speeds are those of positions below it; capture noise and toe tremor lie above
    span_s: float = 1.0 / 30.0  # accelerations are second differences over it, so that 30 and 240 Hz compare
    fine_span_s: float = 1.0 / 120.0  # ... and over this one, where the clip has the frames: ticks of one frame
    near_m: float = 0.008  # a sole point this little above its own floor touches it
    scrape_mps: float = 0.15  # ... and scrapes when it moves faster over the ground
    swing_mps: float = 0.4  # a swing is a peak of foot speed that rises by this much above the minima beside it
    swing_gap_s: float = 0.2  # two swings of one foot are further apart
    swing_middle: float = 0.7  # part of a swing in which clearance is measured
    bent_deg: float = 15.0  # a limb bent less has no bend plane
    flip_deg: float = 90.0  # the bend plane turns by more within a frame: a flip
    standing_mps: float = 0.15  # a slower pelvis stands
    most_backwards_deg: float = 12.0  # captures hyperextend by up to 10 degrees
    most_float_m: float = 0.08  # captured soles rest up to 7 cm beside the floor: their heights are estimates
    most_median_float_m: float = 0.06  # ... in the median of their steps, up to 5 cm: a whole clip floats
    most_slide_m: float = 0.30  # on one stretch, beyond what a landing heel and a turning ball do
    least_slide_s: float = 0.05  # ... that lasts longer than this
    carried_share: float = 0.7  # [-] of the usual height of the pelvis over a resting sole: it carries the body
    most_slip_mps: float = 0.15  # slowest moment of the slowest point of a standing foot
    most_brief_slip_mps: float = 0.6  # ... of one that stands so briefly that it rolls all the time, as in a run
    brief_s: float = 0.2  # the middle of such a stance is shorter
    drift_near_m: float = 0.012  # a sole point this little above its floor stands, or should
    least_drift_s: float = 0.06  # ... for this long, or its step tells nothing
    least_drifts: int = 4  # of steps, or their median tells nothing
    most_drift_mps: float = 0.145  # median over the steps of a clip; captured walks and jumps reach 0.135
    most_run_drift_mps: float = 0.4  # ... of a run: captured soles roll and slip by up to 0.36
    most_scraped: float = 1.5  # times the 99th percentile of captures of the same kind
    jump_m: float = 0.02  # a root that leaves its course by more within a frame has jumped ...
    jump_mps2: float = 100.0  # ... if no body accelerates so (decides at low frame rates)
    pop_deg: float = 25.0  # the same for the turn of a joint ...
    ankle_pop_deg: float = 45.0  # ... of an ankle, whose markers captures lose most
    pop_deg_per_s2: float = 60_000.0
    least_flight_s: float = 0.1  # a shorter time without a sole near the floor tells nothing about gravity
    short_flight_s: float = 0.35  # shorter flights, those of runs, are judged together: half of them must be wrong
    least_lift_m: float = 0.03  # a flight in which the lower sole rises less may be a floor that was guessed too low
    slow_arc_g: float = 0.35  # ... and so may one that falls slower than this, ...
    least_slow_lift_m: float = 0.06  # ... if the lower sole rises less than this, ...
    most_uneven_g: float = 0.15  # ... or if its parts fall so unlike: hands carry a body over a thing
    least_arc_g: float = 0.15  # a stretch that falls slower somewhere is carried there: no flight
    least_flight_g: float = 0.72  # the fastest part of a captured flight falls with at least 0.8 g
    most_flight_g: float = 1.45  # whole captured flights fall with at most 1.2 g
    obstacle_m: float = 0.01  # depth inside an obstacle that is still said to touch it
