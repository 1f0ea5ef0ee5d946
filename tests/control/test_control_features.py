"""Features: tasks as rows on a velocity, their gains, and what they lead to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from marey.base import InputError, UnknownNameError
from marey.control import Controller, Drive, FootTask, Gains, GazeTask, ModesTask, MomentumTask, RowsTask, SupportTask
from marey.control.balance import convex_hull, hull_centroid, hull_distances, next_support, sole_frame
from marey.control.task_laws import Feature, StepContext, control_form, make_features, task_law
from marey.control.tasks import gaze_frame, gaze_rate
from marey.dynamics import Body
from marey.kinematics import ComTask, LookAtTask, OrientationTask, PointTask, PoseTask
from marey.lie import SO3
from marey.models import PoseModel
from marey.simulate import Simulator

STEP_S = 0.01


def _simulator(body: Body, model: PoseModel | None, seed: int = 0) -> Simulator:
    simulator = Simulator(body, model, gravity=(0.0, 0.0, 0.0))
    rng = np.random.default_rng(seed)
    simulator.reset(velocity=0.3 * rng.normal(size=simulator.num_dof))
    return simulator


def _scene(simulator: Simulator) -> StepContext:
    here = simulator.mechanics()
    return StepContext(simulator, here, STEP_S, next_support(None, simulator, here, STEP_S))


@pytest.mark.mocap
@pytest.mark.parametrize("is_full", [False, True])
def test_tournier_67_momentum_rows_sum_the_bodies(d1_body: Body, c1_model: PoseModel, is_full: bool) -> None:
    simulator = _simulator(d1_body, None if is_full else c1_model)
    here, v, body = simulator.mechanics(), simulator.state.velocity, d1_body
    total = np.zeros(3)
    for j in range(body.skeleton.num_joints):
        omega = here.angular[j] @ v
        speed = here.linear[j] @ v + np.cross(omega, here.centres[j] - here.joints[j])
        inertia = here.frames[j] @ body.inertias[j] @ here.frames[j].T
        total += inertia @ omega + body.masses[j] * np.cross(here.centres[j] - here.com, speed)
    feature = make_features(Drive(MomentumTask()), _scene(simulator))[0][0]
    np.testing.assert_allclose(feature.matrix @ v * body.mass_kg, total, rtol=0, atol=1e-10)


@pytest.mark.mocap
def test_tournier_67_com_rows_are_differences_of_the_centre(d1_body: Body, c1_model: PoseModel) -> None:
    simulator = Simulator(d1_body, c1_model, root="pelvis", gravity=(0.0, 0.0, 0.0))
    here, h = simulator.mechanics(), 1e-6
    numeric = np.empty((3, simulator.num_dof))
    start = simulator.state.pose
    for i in range(simulator.num_dof):
        ends = []
        for way in (h, -h):
            simulator.reset(start)
            simulator.advance(simulator.system(1.0), way * np.eye(simulator.num_dof)[i])
            ends.append(simulator.mechanics().com)
        numeric[:, i] = (ends[0] - ends[1]) / (2 * h)
    np.testing.assert_allclose(here.com_jacobian, numeric, rtol=0, atol=1e-7)


LAWS = {
    "point": lambda s: PointTask("LeftHand", s.mechanics().point(_j(s, "LeftHand")) + 0.1, point=(0.0, 0.05, 0.0)),
    "orientation": lambda s: OrientationTask("Head", SO3.exp((0.2, -0.1, 0.3))),
    "com": lambda s: ComTask(s.mechanics().com + 0.05),
    "look": lambda s: LookAtTask("Head", s.mechanics().joints[_j(s, "Head")] + (1.0, 0.4, 2.0)),
    "modes": lambda s: ModesTask(np.zeros(s.model.num_components), metric="deviations"),
    "foot": lambda s: FootTask("left", s.mechanics().joints[_j(s, "LeftFoot")] - (0.0, 0.1, 0.0), heading_rad=0.3),
}


def _j(simulator: Simulator, name: str) -> int:
    return simulator.body.skeleton.index(name)


@pytest.mark.mocap
@pytest.mark.parametrize("name", LAWS)
def test_rows_of_a_task_tell_how_its_error_changes(name: str, d1_body: Body, c1_model: PoseModel) -> None:
    """Near the target, where the logarithm's derivative is the identity to first order."""
    simulator = _simulator(d1_body, c1_model)
    task = LAWS[name](simulator)
    if name in ("orientation", "look"):  # begin almost where it shall be
        here = simulator.mechanics()
        head = _j(simulator, "Head")
        task = (
            OrientationTask("Head", SO3.from_matrix(here.frames[head]) @ SO3.exp((1e-3, -2e-3, 1e-3)))
            if name == "orientation"
            else LookAtTask("Head", here.joints[head] + here.frames[head] @ (0.002, -0.003, 2.0))
        )
    start, h = simulator.state, 1e-5
    law = task_law(task, _scene(simulator), None)
    errors = []
    for way in (h, -h):
        simulator.reset(start.pose, velocity=start.velocity)
        simulator.advance(simulator.system(way if way > 0 else h), start.velocity * np.sign(way))
        errors.append(task_law(task, _scene(simulator), None).error)
    rate = (errors[0] - errors[1]) / (2 * h)
    if name == "foot":  # the sole's turn is measured from a target that lies flat: only its place is compared
        np.testing.assert_allclose((law.matrix @ start.velocity)[:3], rate[:3], atol=1e-4)
    else:
        np.testing.assert_allclose(law.matrix @ start.velocity, rate, atol=3e-3 * max(1.0, np.abs(rate).max()))


@pytest.mark.mocap
def test_modes_in_joint_angles_cost_what_the_full_space_does(d1_body: Body, c1_model: PoseModel) -> None:
    simulator = _simulator(d1_body, c1_model)
    v = simulator.state.velocity
    law = task_law(ModesTask(np.zeros(c1_model.num_components)), _scene(simulator), None)
    turns = simulator.mechanics().turns @ v[6:]  # (J, 3) of every joint
    assert (law.matrix @ v) @ (law.matrix @ v) == pytest.approx((turns**2).sum(), rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_tournier_66_feed_forward_of_a_gaze_is_its_derivative(seed: int) -> None:
    rng = np.random.default_rng(seed)
    view, rate, up = rng.normal(size=3) + np.array([0.0, 0.0, 3.0]), rng.normal(size=3), np.array([0.0, 1.0, 0.0])
    frame, h = gaze_frame(view, up), 1e-5
    assert frame is not None
    ahead, behind = gaze_frame(view + h * rate, up), gaze_frame(view - h * rate, up)
    numeric = SO3.from_matrix(behind.T @ ahead).log() / (2 * h)
    np.testing.assert_allclose(gaze_rate(frame, view, rate, up), numeric, rtol=0, atol=1e-8)


def test_tournier_66_a_gaze_along_up_asks_for_nothing() -> None:
    up = np.array([0.0, 1.0, 0.0])
    assert gaze_frame(np.array([0.0, 2.0, 0.0]), up) is None
    assert gaze_frame(np.array([0.01, -2.0, 0.0]), up) is None
    assert gaze_frame(np.array([0.0, 0.0, 5e-4]), up) is None
    assert gaze_frame(np.array([0.0, 1.0, 1.0]), up) is not None


@pytest.mark.mocap
def test_tournier_66_the_head_looks_where_it_is_told_within_a_second(make_standing, make_balanced) -> None:
    simulator = make_standing(None)
    here, head = simulator.mechanics(), simulator.body.skeleton.index("Head")
    axis = here.frames[head].T @ np.array([0.0, 0.0, 1.0])  # straight ahead in the world, as it stands
    crown = here.frames[head].T @ np.array([0.0, 1.0, 0.0])
    place = here.joints[head] + SO3.exp((0.0, 0.5, 0.0)) @ np.array([0.0, 0.2, 2.0])
    task = Drive(GazeTask("Head", place, axis=axis, up_axis=crown, weight=20.0), Gains(8.0, 0.0))
    controller = make_balanced(simulator, task)
    for _ in range(100):
        controller.step(STEP_S)
    here = simulator.mechanics()
    view = place - here.joints[head]
    angle = np.arccos(np.clip(here.frames[head] @ axis @ view / np.linalg.norm(view), -1.0, 1.0))
    assert np.degrees(angle) < 1.0
    above = GazeTask("Head", here.joints[head] + (0.0, 1.0, 0.0), axis=axis, up_axis=crown)
    assert make_features(Drive(above), _scene(simulator)) == ([], 0.0)
    assert np.isfinite(controller.step(STEP_S, tasks=[SupportTask(), above]).velocity).all()


def test_tournier_61_gains_outside_the_stable_region_are_refused() -> None:
    assert Gains().per_s(0.01) == pytest.approx(20.0)
    for stiffness, damping in ((-1.0, 0.0), (0.0, 0.0), (200.0, 0.0), (190.0, 0.1), (10.0, 1.0), (10.0, -0.1)):
        with pytest.raises(InputError, match="unstable"):
            Gains(stiffness, damping).per_s(0.01)
    assert Gains(199.0, 0.0).per_s(0.01) == 199.0


@pytest.mark.mocap
@pytest.mark.parametrize("gains", [Gains(), Gains(100.0, 0.0), Gains(10.0, 0.5)])
def test_tournier_61_a_tracked_point_settles_without_oscillation(
    gains: Gains, d1_body: Body, c1_model: PoseModel
) -> None:
    """Floating without weight, the hand is moved by internal forces alone."""
    simulator = Simulator(d1_body, c1_model, gravity=(0.0, 0.0, 0.0))
    hand = _j(simulator, "LeftHand")
    target = simulator.mechanics().joints[hand] + (0.03, 0.05, 0.04)
    controller = Controller(simulator, [Drive(PointTask("LeftHand", target, weight=100.0), gains)])
    away = []
    for _ in range(250):
        controller.step(STEP_S)
        away.append(np.linalg.norm(simulator.mechanics().joints[hand] - target))
    assert away[-1] < 1e-3
    assert max(away[-50:]) < 1e-3
    assert max(away) < np.linalg.norm((0.03, 0.05, 0.04))


@pytest.mark.mocap
def test_a_moving_target_is_followed_with_feed_forward(d1_body: Body, c1_model: PoseModel) -> None:
    lag = {}
    for feeds in (False, True):
        simulator = Simulator(d1_body, c1_model, gravity=(0.0, 0.0, 0.0))
        hand = _j(simulator, "LeftHand")
        place, speed = simulator.mechanics().joints[hand], np.array([0.0, 0.1, 0.05])
        controller = Controller(simulator)
        for n in range(60):
            goal = PointTask("LeftHand", place + n * STEP_S * speed, weight=100.0)
            controller.step(STEP_S, tasks=[Drive(goal, Gains(5.0, 0.0), speed if feeds else None)])
        lag[feeds] = np.linalg.norm(simulator.mechanics().joints[hand] - place - 60 * STEP_S * speed)
    assert lag[True] < 0.2 * lag[False]


@pytest.mark.mocap
def test_weights_of_axes_and_matrices_are_the_same_goal(d1_body: Body, c1_model: PoseModel) -> None:
    simulator = _simulator(d1_body, c1_model)
    scene, weights = _scene(simulator), np.array([1.0, 0.0, 4.0])
    forms = [
        control_form(make_features(Drive(PointTask("Head", (0.0, 1.0, 0.0), weight=w)), scene)[0], simulator.num_dof)
        for w in (weights, np.diag(weights))
    ]
    np.testing.assert_allclose(forms[0][0], forms[1][0], atol=1e-9)
    np.testing.assert_allclose(forms[0][1], forms[1][1], atol=1e-9)


def test_the_control_form_is_the_sum_of_weighted_squares() -> None:
    rng = np.random.default_rng(1)
    features = [Feature(rng.normal(size=(r, 8)), rng.normal(size=r), w) for r, w in ((3, 2.0), (1, 5.0))]
    Q, c = control_form(features, 8)
    v, zero = rng.normal(size=8), np.zeros(8)
    cost = [sum(f.weight * ((f.matrix @ x - f.target) ** 2).sum() for f in features) for x in (v, zero)]
    assert 0.5 * v @ Q @ v + c @ v == pytest.approx(cost[0] - cost[1], rel=1e-12)


def test_hulls_of_soles() -> None:
    square = np.array([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (0.5, 0.5), (0.5, 0.0)])
    hull = convex_hull(square)
    assert len(hull) == 4
    np.testing.assert_allclose(hull_centroid(hull), (0.5, 0.5))
    normals, inside = hull_distances(hull, np.array([0.25, 0.5]))
    assert sorted(inside) == pytest.approx([0.25, 0.5, 0.5, 0.75])
    assert (normals @ (0.5, 0.5) > normals @ (9.0, 9.0)).any()
    np.testing.assert_allclose(hull_centroid(convex_hull(np.array([(0.0, 0.0), (2.0, 0.0)]))), (1.0, 0.0))


@pytest.mark.mocap
def test_the_support_is_where_the_soles_touch_and_fades_in_the_air(make_standing) -> None:
    simulator = make_standing(None)
    here = simulator.mechanics()
    support = next_support(None, simulator, here, STEP_S)
    assert support is not None
    assert (hull_distances(support.hull, support.middle("hull")[[0, 2]])[1] > 0.0).all()
    assert support.hold(0.2) == 1.0
    pose = simulator.state.pose
    simulator.reset(type(pose)(pose.skeleton, pose.root_position + np.array([0.0, 0.5, 0.0]), pose.rotations))
    for _ in range(30):
        support = next_support(support, simulator, simulator.mechanics(), STEP_S)
    assert support.hold(0.2) == pytest.approx(0.5)
    assert next_support(None, simulator, simulator.mechanics(), STEP_S) is None


@pytest.mark.mocap
def test_a_sole_has_its_frame_on_the_ankle(make_standing) -> None:
    simulator = make_standing(None)
    for side in ("left", "right"):
        joint, middle, frame = sole_frame(simulator.body.skeleton, side)
        np.testing.assert_allclose(frame.T @ frame, np.eye(3), atol=1e-12)
        here = simulator.mechanics()
        up = here.frames[joint] @ frame[:, 1]
        assert up[1] > 0.9
        assert here.point(joint, middle)[1] < here.joints[joint][1]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: MomentumTask((0.0, np.nan, 0.0)), InputError),
        (lambda: MomentumTask(weight=-1.0), InputError),
        (lambda: SupportTask(centre="left"), UnknownNameError),
        (lambda: SupportTask(margin_m=-0.1), InputError),
        (lambda: GazeTask("Head", (0.0, 0.0, 1.0), axis=(0.0, 1.0, 0.0)), InputError),
        (lambda: FootTask("middle", (0.0, 0.0, 0.0)), UnknownNameError),
        (lambda: FootTask("left", (0.0, 0.0, 0.0), normal=(0.0, 0.0, 0.0)), InputError),
        (lambda: FootTask("left", (0.0, 0.0, 0.0), heading_rad=np.inf), InputError),
        (lambda: ModesTask((0.0,), metric="euclid"), UnknownNameError),
        (lambda: ModesTask((0.0,), priority=9), InputError),
        (lambda: RowsTask(np.zeros((2, 3)), np.zeros(3)), InputError),
        (lambda: Drive("stand"), InputError),
    ],
)
def test_tournier_73_wrong_tasks_are_refused(make: Callable[[], object], error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


@pytest.mark.mocap
def test_tournier_73_tasks_that_do_not_fit_are_refused(d1_body: Body, c1_model: PoseModel) -> None:
    simulator = Simulator(d1_body, c1_model)
    controller = Controller(simulator)
    for task in (
        ModesTask((0.0, 0.0)),
        RowsTask(np.zeros((1, 3)), (0.0,)),
        PointTask("Head", np.zeros((4, 3))),
        Drive(PointTask("Head", (0.0, 0.0, 0.0)), Gains(500.0, 0.0)),
        PointTask("Hed", (0.0, 0.0, 0.0)),
    ):
        with pytest.raises((InputError, UnknownNameError)):
            controller.step(STEP_S, tasks=[task])
    assert simulator.state.time_s == 0.0


@pytest.mark.mocap
def test_a_pose_task_can_hold_some_joints_and_the_root(make_standing) -> None:
    simulator = make_standing(None)
    scene, pose = _scene(simulator), simulator.state.pose
    arm = task_law(PoseTask(pose, joints=("LeftArm", "LeftForeArm")), scene, None)
    assert arm.error.shape == (6,)
    whole = task_law(PoseTask(pose, root_weight=3.0), scene, None)
    np.testing.assert_allclose(whole.error, 0.0, atol=1e-12)
    assert whole.matrix.shape[0] == simulator.num_dof
