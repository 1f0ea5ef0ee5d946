"""Search a motion graph: walk to an object, pick it up and go on, as a sketch asks."""

from marey import samples
from marey.picture import film_strip, save_image
from marey.world import load_sketch

# The graph of the shipped clips is built once and kept in the user's cache folder.
graph = samples.demo_graph()
sketch = load_sketch(samples.sketch_file("pick"))

# ARA* finds a first motion quickly and improves it while its budget lasts; k=2 lets two motions be blended.
for k in (1, 2):
    found = graph.search(sketch, k=k, budget_s=10.0)
    print(f"k = {k}: cost {found.cost:.1f}, at most {found.epsilon:.2f} times the best, {len(found.steps)} steps")

save_image(film_strip(found.motion, count=10), "09_graph.png")
