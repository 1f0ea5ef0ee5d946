"""Measure a clip by geometry alone: figures beside those of captured people, and what is wrong with a broken walk."""

from dataclasses import replace

import numpy as np

import marey

walk = marey.load("walk")  # a shipped name, or the path of your own file
print(marey.measure_motion(walk))

# The same walk, lifted by ten centimetres, pushed along, and with its root elsewhere in one frame
times = walk.times()[:, None]
jumped = walk.root_positions.copy()
jumped[120] += [0.3, 0.0, 0.0]
BROKEN = {
    "lifted": replace(walk, root_positions=walk.root_positions + np.array([0.0, 0.1, 0.0])),
    "pushed": replace(walk, root_positions=walk.root_positions + 0.3 * times * np.array([0.0, 0.0, 1.0])),
    "jumped": replace(walk, root_positions=jumped),
}
for name, clip in BROKEN.items():
    found = marey.measure_motion(clip, against=walk)
    print(f"{name}: {len(found.faults)} faults")
    for fault in found.faults[:3]:
        print("   ", fault)

# Figures by name, beside the 1st and 99th percentile of captured walks
measurement = marey.measure_motion(walk, kind="walk")
for figure in measurement.figures[:12]:
    print(f"{figure.name:32} {figure.value:8.3f} {figure.unit:7} {figure.low} to {figure.high} {figure.remark}")

# The world of a sketch counts: what a hand or a foot is inside of, and what it stands on
world = marey.World(boxes=(marey.world.Box((0.0, 2.0), (1.0, 0.4), 0.3),))
print(marey.measure_motion(walk, world=world).faults[:1])

measurement.to_csv("21_walk.csv")
measurement.plot("21_walk.png")
