"""A sketch is plain data: where to start, where to go, what to do on the way."""

import numpy as np
from matplotlib.figure import Figure

from marey.world import Event, GroundPose, Path, River, Sketch, World, load_sketch, save_sketch

sketch = Sketch(
    start=GroundPose((0.0, 0.0), heading_deg=0.0),
    goal=GroundPose((1.0, 6.0)),
    path=Path(np.array([[0.0, 0.0], [0.5, 3.0], [1.0, 6.0]]), "spline"),
    events=(Event("jump", at=(0.5, 3.0), length_m=1.0),),
    world=World(rivers=(River((-2.0, 3.0), (3.0, 3.0), width_m=0.7),)),
    name="over the river",
)
save_sketch(sketch, "05_sketch.toml")
again = load_sketch("05_sketch.toml")
print(again.name, again.path, again.world.rivers)

figure = Figure(figsize=(4, 6))
axes = figure.add_subplot(aspect="equal", xlabel="x [m]", ylabel="z [m]", title=again.name)
axes.plot(*again.path.sample(0.05).T)
for river in again.world.rivers:
    axes.axhspan(river.start[1] - river.width_m / 2, river.start[1] + river.width_m / 2, alpha=0.3)
figure.savefig("05_sketch.png")
