"""Markers without names: a body is fitted to points on the skin, on a treadmill whose speed is found as well."""

from dataclasses import replace

import numpy as np

import marey
from marey.motion import Markers

# A laboratory without cameras: points on the skin of a walk, three or four on each segment, called p0, p1, ...
# Your own capture takes one line instead: marey.io.load_markers("walk.c3d"), with its plates and EMG if it has them.
walk = marey.kinematics.retarget(marey.load("walk"), marey.HUMAN)[::3]
SKIN = {  # metres in the frame of the joint that carries the segment; left side
    "hip": [(0.09, -0.17, 0.02), (0.05, -0.20, 0.08), (0.055, -0.42, 0.005), (-0.055, -0.42, 0.005)],
    "knee": [(0.05, -0.15, 0.03), (0.05, -0.25, -0.02), (0.04, -0.42, -0.02), (-0.04, -0.42, -0.01)],
    "ankle": [(0.0, -0.03, -0.06), (0.06, -0.04, 0.11), (-0.02, -0.02, 0.17)],
    "shoulder": [(0.15, 0.0, 0.05), (0.32, 0.0, -0.04), (0.32, 0.0, 0.04)],
    "elbow": [(0.12, 0.0, -0.035), (0.25, 0.0, 0.035), (0.25, 0.0, -0.04)],
}
MIDDLE = {
    "pelvis": [(0.12, 0.03, 0.10), (-0.12, 0.03, 0.10), (0.05, 0.03, -0.10), (-0.05, 0.03, -0.10)],
    "spine3": [(0.0, 0.21, -0.07), (0.0, 0.14, 0.07), (0.0, -0.01, 0.11), (0.19, 0.22, 0.0), (-0.19, 0.22, 0.0)],
}
points = [(joint, point) for joint, places in MIDDLE.items() for point in places]
for side, sign in (("left_", 1.0), ("right_", -1.0)):
    points += [(side + joint, (sign * x, y, z)) for joint, places in SKIN.items() for x, y, z in places]
origins, frames = walk.joint_frames()
columns = [marey.HUMAN.index(joint) for joint, _ in points]
seen = origins[:, columns] + frames[:, columns] @ np.array([point for _, point in points])

# The same on a treadmill: the laboratory moves with the walker
way = (walk.root_positions[-1] - walk.root_positions[0]) * [1.0, 0.0, 1.0]
belt_mps = np.linalg.norm(way) / walk.duration_s
seen = seen - way * np.linspace(0.0, 1.0, len(seen))[:, None, None]
markers = Markers(tuple(f"p{m}" for m in range(len(points))), walk.rate_hz, seen, np.ones(seen.shape[:2], dtype=bool))

fit = marey.kinematics.fit_markers(markers)
print(fit)
print(f"stature {fit.height_m:.2f} m (true {marey.motion.standing_height(marey.HUMAN):.2f})")
print(f"belt {fit.belt.speed_mps:.2f} m/s (true {belt_mps:.2f})")
worst = max(fit.marker_rms_m, key=fit.marker_rms_m.__getitem__)
print(f"worst marker {worst}: {1e3 * fit.marker_rms_m[worst]:.1f} mm; left out: {dict(fit.left_out) or 'none'}")

# Seen from the belt, feet in stance rest and the body advances: contacts and physics know what to do with it
ground = replace(fit.over_ground(), name="over ground")
print(f"over ground {marey.motion.mean_speed(ground):.2f} m/s (true {marey.motion.mean_speed(walk):.2f})")
marey.picture.save_image(marey.picture.film_strip(ground, count=6), "23_fitted.png")
