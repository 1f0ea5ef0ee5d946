"""A figure that stands, for the tests of control."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import marey
from marey.control import Controller, MomentumTask, SupportTask
from marey.dynamics import Body
from marey.kinematics import PoseTask
from marey.models import PGA, PoseModel
from marey.motion import Motion
from marey.simulate import Ground, Simulator, contact_spheres
from marey.skeleton import Pose

FLAT_FRAME = 791  # of 69_70: both soles lie flat within a centimetre


@pytest.fixture(scope="session")
def standing_clip(mocap: Path) -> Motion:
    """A clip in which a figure stands, turns and picks something up."""
    return marey.load(mocap / "cmu-bvh" / "69_70.bvh")


@pytest.fixture(scope="session")
def standing_model(standing_clip: Motion) -> PoseModel:
    """Twenty geodesics of it."""
    return PGA(n_components=20, weights="lever").fit([standing_clip])


@pytest.fixture(scope="session")
def make_standing(standing_clip: Motion, standing_model: PoseModel) -> Callable[..., Simulator]:
    """Simulators of a figure on its feet: reduced by default, in the full space with ``model=None``."""
    body = Body.from_motion(standing_clip)

    def make(model: PoseModel | None = standing_model, **options: object) -> Simulator:
        pose = standing_clip[FLAT_FRAME]
        ground = Ground(point=(0.0, lowest_sole(pose) + 0.004, 0.0))
        settings = {"damping": "energetic", "damping_rate": 1.0, "ground": ground} | options
        simulator = Simulator(body, model, **settings)
        simulator.reset(pose)
        return simulator

    return make


def lowest_sole(pose: Pose) -> float:
    """Height [m] of the lowest corner of the soles."""
    spheres, names = contact_spheres(pose.skeleton)
    soles = [n for n, name in enumerate(names) if "heel" in name or "ball" in name]
    joints = spheres.joints[soles]
    places = pose.joint_positions()[joints] + (pose.joint_rotations()[joints] @ spheres.offsets[soles])
    return float(places[:, 1].min())


@pytest.fixture(scope="session")
def make_balanced() -> Callable[..., Controller]:
    """Controllers that keep a simulator's figure standing as it is."""

    def make(simulator: Simulator, *more: object, **options: object) -> Controller:
        tasks = [SupportTask(), MomentumTask(), PoseTask(simulator.state.pose, weight=0.2)]
        return Controller(simulator, [*tasks, *more], **options)

    return make


@pytest.fixture
def human_simulator() -> Simulator:
    """The canonical human in the full space, in the air: needs no clips."""
    from marey.skeleton import HUMAN

    return Simulator(Body.from_skeleton(HUMAN))
