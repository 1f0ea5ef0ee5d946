"""A character of your own on a slope and on stairs: where its soles are, and how its knees bend.

Run it with `python examples/29_slopes_and_stairs.py [FILE]`: a motion or character file whose skeleton walks.
"""

from __future__ import annotations

import sys

import numpy as np

from marey import HUMAN, load
from marey.locomotion import Engine, Slope, Stairs
from marey.measure import measure_motion
from marey.picture import film_strip, save_image
from marey.skeleton import foot_points

skeleton = load(sys.argv[1]).skeleton if len(sys.argv) > 1 else HUMAN.scaled(0.9)
grounds = {
    "8 degrees up": (Slope(np.radians(8.0), start_m=1.0), 1.2),
    "8 degrees down": (Slope(np.radians(-8.0), start_m=1.0), 1.2),
    "stairs up": (Stairs(rise_m=0.15, tread_m=0.30, count=6, start_m=1.0), 0.4),
}
for name, (ground, speed) in grounds.items():
    motion = Engine(skeleton=skeleton, speed=speed, ground=ground).run(4.0)
    soles = foot_points(skeleton).positions(*motion.joint_frames())
    over = np.array([[y - ground.plane(x, z)[0] for x, y, z in frame] for frame in soles])
    found = measure_motion(motion, kind="walk")
    bent = " and ".join(f"{found[f'{side}_knee_flexion_median_deg']:.0f}" for side in ("left", "right"))
    print(f"{name}: lowest point of the soles {1e3 * over.min():.0f} mm over the ground, knees bent by {bent} degrees")
    save_image(film_strip(motion), f"29_{name.replace(' ', '_')}.png")
