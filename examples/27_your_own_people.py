"""Train a locomotion model on a folder of captures without labels, correct the sorting, and add a person."""

import tempfile
from dataclasses import replace
from pathlib import Path

import marey
from marey.locomotion import Engine, capture_episodes, fit_locomotion, fit_person, load_model, sort_clips
from marey.picture import compare_strips, save_image

shipped = load_model()
folder = Path(tempfile.mkdtemp())
marey.save(Engine(shipped, style="swinging", speed=1.1, leg_length_m=0.84).run(3.0), folder / "a.bvh")
marey.save(Engine(shipped, style="swinging", speed=1.6, leg_length_m=0.84).run(3.0), folder / "b.bvh")
marey.save(Engine(shipped, style="strolling", speed=0.9, leg_length_m=0.98).run(4.0), folder / "c.bvh")

# Who moves and what they show; nobody runs and nobody jumps, so that is lent by the shipped model
sorting = sort_clips(folder)
print(sorting.text())
groups = [replace(group, subject="otto" if "c" in group.train else "anna") for group in sorting.manifest.groups]
model = fit_locomotion(folder, replace(sorting.manifest, groups=tuple(groups)))
print(model.text())
print(f"{len(capture_episodes(folder, sorting.manifest, 'stand'))} captured stands, to be used as they are")

# One more person, from one clip
model = fit_person(marey.load("walk"), model, name="newcomer")
walks = [replace(Engine(model, style=name, speed=1.2).run(2.0), name=name) for name in model.styles]
save_image(compare_strips(walks), "27_people.png")
