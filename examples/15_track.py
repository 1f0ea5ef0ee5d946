"""Track a seated person in the picture of one camera, by particles in the space of hands and head."""

import numpy as np

from marey.picture import render_motion, save_image
from marey.tracking import Camera, EffectorFilter, Occlusion, PoseFilter, observe, seated_limits, seated_motion

truth = seated_motion(np.random.default_rng(11), frames=60)
camera = Camera(np.array([0.5, 1.15, 2.2]), np.array([0.0, 0.95, 0.15]))
seen = observe(truth, camera, noise_px=2.0, occlusion=Occlusion(share=0.1), rng=np.random.default_rng(12))
print(seen)

# Nine numbers and inverse kinematics, against a random walk of all joint rotations with four times the particles.
limits = seated_limits()
trackers = {"end effectors": EffectorFilter(limits=limits), "full pose": PoseFilter(limits=limits)}
tracks = {name: tracker.run(seen, truth[0], np.random.default_rng(0)) for name, tracker in trackers.items()}
for name, track in tracks.items():
    print(f"{name}: {100.0 * track.tool_errors(truth).mean():.1f} cm, {track.num_lost} frames lost")

motions = [truth, *(track.motion for track in tracks.values())]
save_image(render_motion(motions, [59], view="front", prints=False), "15_track.png")
