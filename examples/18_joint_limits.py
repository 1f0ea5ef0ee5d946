"""Joint limits of six kinds, learnt from one walk: how much of it they hold, and how tight and how fast they are."""

import numpy as np

import marey
from marey.kinematics import compare_limits, estimate_joints, fit_limits, plot_limits

walk = marey.samples.walk()
first, second = walk[: walk.num_frames // 2], walk[walk.num_frames // 2 :]

# What kind of joint each one is, and between which angles it moves.
for joint in estimate_joints(walk):
    low, high = np.rad2deg(joint.low_rad[0]), np.rad2deg(joint.high_rad[0])
    print(f"{joint.joint:16s} {joint.kind:6s} {low:7.1f}° to {high:6.1f}°")

# Every kind is fitted to the first half; the second half should be feasible too.
for score in compare_limits(first, held_out=second, rng=np.random.default_rng(0), num_points=500):
    print(
        f"{score.model.kind:10s} {score.model.capability:32s} holds {score.training:6.1%} of the first half, "
        f"{score.held_out:6.1%} of the second; {score.volume:6.1%} of the box; {score.project_ns:8.0f} ns a joint"
    )

plot_limits(fit_limits(walk, "sdf"), ["left_hip"], motion=walk, path="18_joint_limits.png")
