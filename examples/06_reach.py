"""Put hands where you want them: inverse kinematics of the whole body, with and without joint limits."""

import numpy as np

import marey
from marey.kinematics import BoxLimits
from marey.lie import SE3
from marey.motion import Motion
from marey.picture import film_strip, save_image

walk = marey.samples.walk()
start = walk[30]
feet = [
    marey.PointTask(name, target_world=start.joint_positions()[walk.skeleton.index(name)])
    for name in ("left_ankle", "right_ankle")
]
wrist = walk.skeleton.index("right_wrist")
hand = start.joint_positions()[wrist] + np.array([-0.1, 0.6, 0.3])
tasks = [*feet, marey.PointTask(wrist, target_world=hand)]
limits = BoxLimits.from_clips([walk], margin_rad=0.3)

free = marey.solve_ik(walk.skeleton, tasks, start=start)
held = marey.solve_ik(walk.skeleton, tasks, start=start, limits=limits, on_failure="return")
print("free:       ", free)
print("with limits:", held, "violation", limits.violation(held.pose).max())

# Where the tip of a stick of 30 cm in the hand is: adjacent names of frames cancel.
p_hand_tip = np.array([0.0, 0.0, 0.3])
for pose in (free.pose, held.pose):
    T_world_hand = SE3(pose.joint_rotations()[wrist], pose.joint_positions()[wrist])
    print("tip of the stick [m]:", np.round(T_world_hand @ p_hand_tip, 3))

poses = [start, free.pose, held.pose]
shown = Motion(
    walk.skeleton,
    1.0,
    np.stack([pose.root_position for pose in poses]),
    type(start.rotations).stack([pose.rotations for pose in poses]),
)
save_image(film_strip(shown, count=3, layout="grid", width=1000), "06_reach.png")
