"""The jump machine's logic, on a walker and jumps that are plain formulas."""

from itertools import pairwise

import numpy as np
import pytest

from marey.base import InputError, MareyWarning, UnknownNameError
from marey.lie import SO3
from marey.locomotion.model.clockwork import NEVER_S
from marey.locomotion.model.locomotion_model import EFFECTORS, EVENTS
from marey.locomotion.model.walker import RawFrame
from marey.locomotion.planning.parameters import GaitParameters
from marey.locomotion.planning.run_up import MAX_ACCELERATION
from marey.locomotion.transitions.clips import LEFT, JumpClip
from marey.locomotion.transitions.state_machine import JumpStateMachine
from marey.motion.editing import opposite_joints
from marey.skeleton import HUMAN

WALK = np.array([0.0, 0.06, 0.40, 0.62, 0.50, 0.56, 0.90, 1.12])
RUN = np.array([0.0, 0.04, 0.25, 0.36, 0.50, 0.54, 0.75, 0.86])
LEAP = np.array([0.0, 0.06, 0.25, 0.40, 0.70, 0.73, 0.85, 1.0])
HIP_HEIGHT = float(HUMAN.offsets[0][1])
UPRIGHT = SO3.identity(HUMAN.num_joints).wxyz
RIGHT_HIP, LEFT_HIP = HUMAN.index("right_hip"), HUMAN.index("left_hip")
OTHER_SIDE = opposite_joints(HUMAN)[0]


class PlainWalker:
    """Speed, run and turn rate in straight lines; legs that swing about the hips."""

    def __init__(self, speed=1.2, run=0.0, phase=0.0, turn_rate=0.0):
        self.plan, self.times = [GaitParameters(speed, run, turn_rate, 0.93, np.ones(1))], np.zeros(1)
        self.clock = 0.0
        self.phase, self.position, self.heading_rad = phase, np.zeros(2), 0.0

    @property
    def state(self):
        return "standing" if self.parameters.speed == 0.0 else "locomotion"

    @property
    def is_settled(self):
        return self.parameters.speed == 0.0

    def _at(self, clock):
        if clock >= self.times[-1]:
            return self.plan[-1]
        i = int(np.searchsorted(self.times, clock, side="right")) - 1
        u = (clock - self.times[i]) / (self.times[i + 1] - self.times[i])
        mixed = [(1.0 - u) * a + u * b for a, b in zip(self.plan[i][:4], self.plan[i + 1][:4], strict=True)]
        return GaitParameters(*mixed, self.plan[i].weights)

    @property
    def parameters(self):
        return self._at(self.clock)

    @property
    def target(self):
        return self.plan[-1]

    def go_to(self, parameters, over_s):
        self.plan, self.times, self.clock = [self.parameters, parameters], np.array([0.0, max(over_s, 0.1)]), 0.0

    def follow_plan(self, times_s, speed, run, turn_rate):
        knots = zip(speed, run, turn_rate, strict=True)
        self.plan = [self.parameters._replace(speed=s, run=w, turn_rate=o) for s, w, o in knots]
        self.times, self.clock = np.array(times_s), 0.0

    @property
    def remaining_s(self):
        return max(self.times[-1] - self.clock, 0.0)

    def place(self, phase, position, heading_rad):
        self.phase, self.position, self.heading_rad = phase, np.array(position), heading_rad

    def frequency(self, speed, run):
        return 0.75 * speed * (1.0 + 0.1 * run)  # of degree two along a ramp, so Simpson's rule is exact

    def events(self, speed, run):
        return (1.0 - run) * WALK + run * RUN

    def advance(self, dt):
        if dt <= 0.0:
            return ()
        ends = [self.clock, *(t for t in self.times if self.clock < t < self.clock + dt), self.clock + dt]
        for a, b in pairwise(ends):
            for u, weight in ((0.0, 1.0), (0.5, 4.0), (1.0, 1.0)):
                now, part = self._at(a + u * (b - a)), weight * (b - a) / 6.0
                self.phase += part * self.frequency(now.speed, now.run)
                self.heading_rad += part * now.turn_rate
                ahead = np.array([np.sin(self.heading_rad), np.cos(self.heading_rad)])
                self.position = self.position + part * now.speed * ahead
        self.clock += dt
        return ()

    def pose_at(self, phase, speed, run, position, heading_rad):
        wxyz = UPRIGHT.copy()
        swing = 0.125 * np.cos(2.0 * np.pi * phase) * speed
        for hip, angle in ((RIGHT_HIP, -swing), (LEFT_HIP, swing)):
            wxyz[hip, :2] = np.cos(angle), np.sin(angle)
        wxyz[0] = np.cos(0.5 * heading_rad), 0.0, np.sin(0.5 * heading_rad), 0.0
        return np.array([position[0], HIP_HEIGHT, position[1]]), wxyz

    def frame(self, *, is_low=False):
        now = self.parameters
        root, wxyz = self.pose_at(self.phase, now.speed, now.run, self.position, self.heading_rad)
        planted, until, landing = np.ones(4, dtype=bool), np.full(4, NEVER_S), np.zeros((4, 3))
        return RawFrame(root, wxyz, planted, until, landing, now.leg_length_m, np.zeros((4, 3)), np.zeros(2))

    def snapshot(self):
        return dict(self.__dict__)

    def restore(self, snapshot):
        self.__dict__.update(snapshot)


class PlainJumps:
    """A stiff body that is carried over an arc."""

    def limits_m(self, kind, leg_length_m):
        return 0.3, 2.0

    def run_up(self, kind, length_m, leg_length_m):
        return (1.0 if kind == "walk" else 1.2) * length_m, 0.1

    def length_for(self, kind, speed, leg_length_m):
        return speed / (1.0 if kind == "walk" else 1.2)

    def clip(self, kind, length_m, leg_length_m, weights, *, height_m, side):
        phases = np.linspace(0.0, 1.0, 41)
        rows = np.zeros((41, 3 + 3 * HUMAN.num_joints))
        rows[:, 1] = (HIP_HEIGHT + 0.2 * np.maximum(0.0, (phases - 0.4) * (0.7 - phases)) / 0.0225) / leg_length_m
        rows[:, 2] = 2.0 * length_m * phases / leg_length_m
        rows[:, 3 + 3 * LEFT_HIP] = -0.3 * np.sin(np.pi * phases)
        return JumpClip(rows, UPRIGHT, leg_length_m, 1.1, LEAP, OTHER_SIDE if side == LEFT else None)

    def rest_heights_m(self, leg_length_m):
        return HUMAN.rest_positions()[[HUMAN.index(name) for name in EFFECTORS], 1]

    def skeleton_for(self, leg_length_m):
        return HUMAN


def machine(**options):
    return JumpStateMachine(PlainWalker(**options), PlainJumps())


def trace(jumper, seconds, dt=0.02):
    """States, and times at which they begin."""
    states, time = [(jumper.state, 0.0)], 0.0
    while time < seconds:
        jumper.advance(dt)
        time += dt
        if jumper.state != states[-1][0]:
            states.append((jumper.state, time))
    return states


def test_the_six_states_follow_each_other():
    jumper = machine(speed=1.2)
    jumper.jump(0.9)
    names = [name for name, _ in trace(jumper, 12.0)]
    assert names == ["adapt", "blend-in", "jump", "blend-out", "restore", "locomotion"]
    assert not jumper.is_busy


def test_parameters_come_back_exactly():
    jumper = machine(speed=1.37, turn_rate=0.21)
    before = jumper.parameters
    jumper.jump(0.7)
    trace(jumper, 15.0)
    assert jumper.parameters[:4] == before[:4]


def test_glardon_a35_the_run_up_reaches_the_jump_s_speed_gently():
    jumper = machine(speed=0.5)
    answer = jumper.jump(1.5)
    assert answer.speed == pytest.approx(1.4)
    last, time = jumper.parameters.speed, 0.0
    while jumper.state == "adapt":
        jumper.advance(0.01)
        time += 0.01
        assert abs(jumper.parameters.speed - last) / 0.01 <= MAX_ACCELERATION + 1e-6
        last = jumper.parameters.speed
    assert last == pytest.approx(answer.speed)
    assert time == pytest.approx(answer.starts_in_s, abs=0.011)


@pytest.mark.parametrize(("foot", "strike"), [("right", 0.0), ("left", 0.5)])
def test_the_blend_starts_at_the_heel_strike_and_ends_at_the_toe_off(foot, strike):
    jumper = machine(speed=1.0, phase=0.3)
    jumper.jump(1.0, foot=foot)
    while jumper.plan is None:
        jumper.advance(0.01)
    plan = jumper.plan
    assert (plan.gait_phase(0.0) - strike + 0.5) % 1.0 - 0.5 == pytest.approx(0.0, abs=2e-3)
    assert strike + 0.30 <= plan.into.a[1] <= strike + 0.62 + 1e-9  # the gait is still in the same stance
    assert plan.phases(plan.times_s[0])[1] == pytest.approx(LEAP[3])
    assert plan.phases(plan.times_s[1])[1] == pytest.approx(LEAP[4])
    assert plan.phases(plan.times_s[2])[1] == pytest.approx(LEAP[7])
    assert strike + 0.5 + 0.30 <= plan.out.b[1] <= strike + 0.5 + 0.62 + 1e-9


def test_any_partition_of_time_gives_the_same_place():
    ends = []
    for dt in (0.005, 0.033, 0.1):
        jumper = machine(speed=1.1, phase=0.2)
        jumper.jump(1.0)
        time = 0.0
        while time < 6.0 - 1e-9:
            step = min(dt, 6.0 - time)
            jumper.advance(step)
            time += step
        ends.append(np.r_[jumper.position, jumper.phase])
    assert np.ptp(ends, axis=0).max() < 1e-6


def test_raw_poses_are_continuous_through_the_whole_jump():
    jumper = machine(speed=1.0)
    jumper.jump(1.0)
    last, dt = jumper.frame(), 0.002
    for _ in range(3000):
        jumper.advance(dt)
        frame = jumper.frame()
        assert np.linalg.norm(frame.root_position - last.root_position) < 6.0 * dt
        turned = (SO3(last.rotations).inverse() @ SO3(frame.rotations)).angle()
        assert turned.max() < 8.0 * dt
        last = frame


def test_the_supporting_ankle_is_shared_at_both_ends():
    jumper = machine(speed=1.0)
    jumper.jump(1.0)
    while jumper.plan is None:
        jumper.advance(0.01)
    plan = jumper.plan
    places = {}
    for time in (0.0, 1e-9, plan.times_s[1] - 1e-9, plan.times_s[1]):
        frame = plan.frame(time)
        places[time] = frame.root
    assert np.allclose(places[0.0], places[1e-9], atol=1e-6)
    assert np.allclose(places[plan.times_s[1] - 1e-9], places[plan.times_s[1]], atol=1e-6)


def test_foot_events_come_in_order():
    jumper = machine(speed=1.0)
    jumper.jump(1.0)
    passed = []
    while jumper.plan is None:
        jumper.advance(0.01)
    while jumper.plan is not None:
        passed += jumper.advance(0.01)
    assert set(passed) <= set(EVENTS)
    own = [name for name in passed if name in ("RTS", "RHO", "RTO", "LTS", "LHO")]
    assert own.index("RTS") < own.index("RHO") < own.index("RTO") < own.index("LTS", 1) < len(own)
    assert passed.index("RTO") < passed.index("LHS")


def test_a_request_during_the_jump_waits_and_the_last_one_wins():
    jumper = machine(speed=1.0)
    wish = jumper.parameters
    jumper.jump(1.0)
    while jumper.state != "jump":
        jumper.advance(0.01)
    assert jumper.jump(0.8).status == "queued"
    assert jumper.jump(0.6).status == "queued"
    while jumper.state not in ("adapt", "restore"):
        jumper.advance(0.01)
    assert jumper.state == "adapt"
    assert jumper.request.length_m == 0.6
    trace(jumper, 15.0)
    assert jumper.parameters[:4] == wish[:4]


def test_a_run_up_can_be_given_up_but_not_a_flight():
    jumper = machine(speed=1.0)
    jumper.jump(1.6)
    jumper.advance(0.5)
    assert jumper.cancel()
    assert jumper.state == "restore"
    trace(jumper, 5.0)
    assert jumper.parameters.speed == 1.0
    jumper.jump(1.0)
    while jumper.state != "jump":
        jumper.advance(0.01)
    assert not jumper.cancel()
    assert jumper.state == "jump"


def test_a_target_set_during_the_jump_is_reached_after_it():
    jumper = machine(speed=1.0)
    jumper.jump(1.0)
    while jumper.state != "jump":
        jumper.advance(0.01)
    jumper.set_target(jumper.target._replace(speed=0.4), 1.0)
    assert jumper.parameters.speed == pytest.approx(1.0)
    trace(jumper, 5.0)
    assert jumper.parameters.speed == 0.4


def test_jump_now_changes_the_jump_instead_of_the_speed():
    jumper = machine(speed=0.6)
    answer = jumper.jump(1.8, "run", priority="jump-now")
    assert (answer.kind, answer.length_m, answer.speed) == ("walk", pytest.approx(0.6), pytest.approx(0.6))
    assert answer.cycles <= 1.0


def test_a_standing_character_takes_a_run_up():
    jumper = machine(speed=0.0)
    answer = jumper.jump(0.8)
    assert answer.speed == pytest.approx(0.7)
    assert answer.starts_in_s >= 0.7 / MAX_ACCELERATION
    assert [name for name, _ in trace(jumper, 20.0)][-1] == "standing"


def test_a_standing_jump_stops_jumps_and_goes_on():
    jumper = machine(speed=1.0)
    jumper.jump(0.8, "standing")
    names = [name for name, _ in trace(jumper, 12.0)]
    assert names == ["adapt", "blend-in", "jump", "blend-out", "restore", "locomotion"]
    assert jumper.parameters.speed == 1.0


def test_a_snapshot_brings_the_moment_back():
    jumper = machine(speed=1.0)
    jumper.jump(1.0)
    trace(jumper, 2.0)
    kept, before = jumper.snapshot(), jumper.frame()
    trace(jumper, 3.0)
    after = jumper.frame()
    jumper.restore(kept)
    assert np.array_equal(jumper.frame().root_position, before.root_position)
    trace(jumper, 3.0)
    assert np.array_equal(jumper.frame().rotations, after.rotations)


def test_a_jump_that_is_too_long_is_clamped_with_a_warning():
    jumper = machine(speed=1.9)
    with pytest.warns(MareyWarning, match=r"2\.00 m"):
        assert jumper.jump(9.0).length_m == 2.0


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 0.0, -1.0])
def test_lengths_that_are_no_lengths_are_refused(bad):
    jumper = machine()
    with pytest.raises(InputError, match="length_m"):
        jumper.jump(bad)
    assert jumper.state == "locomotion"


@pytest.mark.parametrize("options", [{"kind": "hop"}, {"priority": "soon"}, {"foot": "third"}])
def test_unknown_names_are_refused(options):
    with pytest.raises(UnknownNameError):
        machine().jump(1.0, **options)


@pytest.mark.parametrize("options", [{"height_m": -1.0}, {"max_acceleration": 0.0}, {"takeoff": (0.0, np.nan)}])
def test_bad_numbers_are_refused(options):
    with pytest.raises(InputError):
        machine().jump(1.0, **options)


def test_a_run_up_that_takes_too_long_is_refused_and_changes_nothing():
    jumper = machine(speed=1.0)
    with pytest.raises(InputError, match="max_acceleration"):
        jumper.jump(2.0, max_acceleration=0.01)
    assert jumper.state == "locomotion"
    assert jumper.target.speed == 1.0


@pytest.mark.parametrize("count", [500, *(pytest.param(n, marks=pytest.mark.slow) for n in (1_500, 10_000))])
def test_glardon_a34_random_requests_end_where_they_began(count):
    rng = np.random.default_rng(34)
    for _ in range(count):
        walker = PlainWalker(float(rng.uniform(0.3, 2.2)), float(rng.integers(2)), float(rng.uniform()))
        jumper, before = JumpStateMachine(walker, PlainJumps()), walker.parameters
        kind, foot = str(rng.choice(["walk", "run"])), str(rng.choice(["right", "left"]))
        answer = jumper.jump(float(rng.uniform(0.3, 2.0)), kind, foot=foot)
        jumper.advance(answer.starts_in_s + 1e-6)
        events, first = (WALK if kind == "walk" else RUN), 0 if foot == "right" else 4
        into, out = jumper.plan.into, jumper.plan.out
        assert jumper.state == "blend-in"
        assert abs((jumper.plan.gait_phase(0.0) - events[first] + 0.5) % 1.0 - 0.5) < 1e-3
        assert (into.b[1], *out.a) == (LEAP[3], LEAP[4], LEAP[7])
        assert into.a[1] <= events[first + 3]
        assert out.b[1] <= events[7 - first] + (first > 0)
        jumper.advance(60.0)
        assert jumper.state == "locomotion"
        assert jumper.parameters[:4] == before[:4]
