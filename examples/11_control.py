"""Push a standing figure: springs at the joints tip over like a statue, balance control takes the push."""

from dataclasses import replace

import numpy as np

import marey
from marey.control import Controller, Keyframe, MomentumTask, PDController, SupportTask
from marey.kinematics import PoseTask
from marey.motion import Motion
from marey.picture import render_motion, save_image
from marey.simulate import Ground, PointForce, Simulator
from marey.skeleton import Pose

STEP_S = 0.01
body = marey.Body.from_skeleton(marey.HUMAN)
stand = Pose.rest(marey.HUMAN)
lowest = stand.joint_positions()[:, 1].min()
stand = replace(stand, root_position=stand.root_position - np.array([0.0, lowest - 0.06, 0.0]))


def push(make_controller) -> Motion:
    """Simulate two seconds with a push of a fifth of a second from behind."""
    simulator = Simulator(body, damping="energetic", damping_rate=1.0, ground=Ground())
    simulator.reset(stand)
    controller = make_controller(simulator)
    poses = []
    for step in range(200):
        controller.step(STEP_S, [PointForce("spine2", (0.0, 0.0, 80.0))] if step < 20 else [])
        poses.append(simulator.state.pose)
    rotations = type(stand.rotations).stack([pose.rotations for pose in poses])
    return Motion(marey.HUMAN, 1.0 / STEP_S, np.stack([pose.root_position for pose in poses]), rotations)


springs = push(lambda simulator: PDController(simulator, [Keyframe(stand)]))
control = push(lambda simulator: Controller(simulator, [SupportTask(), MomentumTask(), PoseTask(stand, weight=0.2)]))
for name, motion in (("springs", springs), ("control", control)):
    fall = motion.root_positions[0, 1] - motion.root_positions[-1, 1]
    print(f"{name}: the root ends {100.0 * fall:.1f} cm lower")

save_image(render_motion([springs, control], [0, 60, 199]), "11_control.png")
