"""Pictures of anything: a walk in a world of things, a character's own mesh, and a motion as a page shows it."""

from pathlib import Path

import marey
from marey.picture import film_strip, save_image
from marey.world import Bar, Box, River, Stone, Table, Wall, World

walk = marey.load("walk")  # a shipped name, or the path of your own file

# What stands around is drawn where it is; walls are seen through
world = World(
    walls=(Wall((-1.6, -0.5), (-1.6, 3.5), height_m=1.2),),
    rivers=(River((-3.0, 1.4), (3.0, 1.4), width_m=0.5),),
    stones=(Stone((0.5, 1.4), 0.18),),
    tables=(Table((1.2, 2.4)),),
    boxes=(Box((-0.9, 0.4), height_m=0.4),),
    bars=(Bar((-0.6, 2.2, 2.8), (0.6, 2.2, 2.8)),),
)
save_image(film_strip(walk, count=6, width=1200, world=world), "24_world.png")

# A file with a skinned mesh is drawn as that mesh, others as a body of capsules; `body` chooses
marey.save(walk, "24_walk.glb")
own = marey.load("24_walk.glb")
for body in ("mesh", "capsules"):
    save_image(film_strip(own, count=6, width=1200, body=body), f"24_{body}.png")

# What a notebook shows for a cell that ends with `walk`
Path("24_notebook.html").write_text(walk._repr_html_(), encoding="utf-8")
