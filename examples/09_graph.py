"""Search a motion graph: walk to an object, pick it up and go on, as a sketch asks."""

import numpy as np

from marey import samples
from marey.graph import SearchSettings, build_graph, graph_report, rebuild_motion, register_event
from marey.picture import film_strip, save_image
from marey.world import load_sketch

# The graph of the shipped clips is built once and kept in the user's cache folder.
graph = samples.demo_graph()
sketch = load_sketch(samples.sketch_file("pick"))

# ARA* finds a first motion quickly and improves it while its budget lasts; k=2 lets two motions be blended.
for k in (1, 2):
    found = graph.search(sketch, k=k, budget_s=10.0, settings=SearchSettings(body_radius_m=0.3))
    print(f"k = {k}: cost {found.cost:.1f}, at most {found.epsilon:.2f} times the best, {len(found.steps)} steps")

# The path at another rate, without the last millimetres to the object.
print(rebuild_motion(graph, found, rate_hz=120.0))


# Kinds of events are open: here wide stances, by how far apart the feet are. A graph has a table of costs to each kind.
def find_wide_stances(arrays):
    """States whose planted feet are more than 30 cm apart, and how far apart they are, across and along."""
    apart = np.abs(arrays.feet[:, 0] - arrays.feet[:, 1])
    states = np.flatnonzero(apart[:, 0] > 0.3)
    return states, apart[states]


register_event("wide stance", ("across", "along"), find_wide_stances)
small = build_graph(samples.demo_clips()[:6], **samples.DEMO_SETTINGS)
print("\n".join(graph_report(small).lines()))

save_image(film_strip(found.motion, count=10), "09_graph.png")
