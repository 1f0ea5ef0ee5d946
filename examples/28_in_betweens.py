"""Key poses in, a motion out: as people move, smoothly, and by slerp, against what was captured."""

import marey
from marey.picture import render_motion, save_image
from marey.pipeline import make_in_betweens, take_keys

clip = marey.samples.walk(1.2, seconds=3.0)
plan = take_keys(clip, [0.0, 0.5, 1.0, 1.5, 2.0, 2.5])
source = clip[: round(2.5 * clip.rate_hz) + 1]

made = {method: make_in_betweens(plan, method=method, source=source) for method in ("people", "smooth", "straight")}
for method, result in made.items():
    figures = "  ".join(f"{name} {value:.3f}" for name, value in result.against["motion"].items())
    print(f"{method:<9} {figures}  keys within {1e3 * result.key_miss_m:.1f} mm")

frames = list(range(0, source.num_frames, 12))
save_image(render_motion([source, *(result.motion for result in made.values())], frames), "28_in_betweens.png")
