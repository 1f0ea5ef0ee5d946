"""Walk up to a line on the ground and stop with the toes on it; and let a crowd walk, each in a style of its own."""

import numpy as np

from marey.lie import SO3
from marey.locomotion import Crowd, Engine, load_model, stop_at
from marey.motion import Motion
from marey.picture import render_motion, save_image

RATE_HZ = 60.0
model = load_model()

# One walker: the last steps are planned so that the halt falls on a heel strike (Glardon 2005, §IV.1.6).
engine = Engine(model, speed=1.2, plants=True)
stop_at(engine, [(-1.0, 4.0), (1.0, 4.0)])
while engine.speed > 0.0:
    engine.step(1.0 / RATE_HZ)
foot = max(engine.pose.joint_positions()[model.skeleton.index(f"{side}_foot"), 2] for side in ("left", "right"))
print(f"stopped after {engine.position[1]:.2f} m; the ball of the foremost foot is at {foot:.2f} m, the line at 4 m")

# Many walkers share the kernels: size, style and speed of each are rows of arrays.
rng = np.random.default_rng(1)
crowd = Crowd(
    model,
    rng.uniform(0.75, 1.0, 6),
    styles=[model.styles[int(i)] for i in rng.integers(len(model.styles), size=6)],
    positions=1.5 * np.stack([np.arange(6) % 3, np.arange(6) // 3], axis=1),
    speeds=rng.uniform(0.8, 1.6, 6),
    plants=True,
)
roots, wxyz = np.empty((180, 6, 3)), np.empty((180, *crowd.rotations.shape))
for frame in range(180):
    crowd.step(1.0 / RATE_HZ)
    roots[frame], wxyz[frame] = crowd.root_positions, crowd.rotations
people = [Motion(crowd.poses(i).skeleton, RATE_HZ, roots[:, i], SO3(wxyz[:, i])) for i in range(6)]
print("speeds:", np.round(crowd.speeds, 2), "m/s")

save_image(render_motion(people, 179, spacing_m=0.0), "16_crowd.png")
