"""A tree of mixed formats becomes a library: takes, characters and licences are kept, what is no motion is listed."""

from pathlib import Path

import numpy as np

import marey
from marey.library import Library
from marey.picture import film_strip, save_image

# What a download looks like: a BVH and a GLB of a studio, arrays of a video tracker, a picture, a licence
tree = Path("25_download")
(tree / "tracker").mkdir(parents=True, exist_ok=True)
walk, run = marey.load("walk"), marey.load("run")
marey.save(walk, tree / "walk.bvh")
marey.save(run, tree / "run.glb")
poses = marey.retarget(walk, marey.HUMAN).rotations.log()  # (F, 22, 3) [rad]
np.savez(tree / "tracker" / "person.npz", global_orient=poses[:, 0], body_pose=poses[:, 1:], transl=walk.root_positions)
np.savez(tree / "tracker" / "shape.npz", betas=np.zeros(10))
(tree / "thumbnail.png").write_bytes(b"a picture")
(tree / "LICENSE").write_text("Apache License 2.0\n", encoding="utf-8")

with Library("25_library") as library:
    report = library.add(tree)
    print(report)
    for result in report.skipped:
        print(f"skipped {result.path}: {result.message}")
    for record in library.clips():
        print(f"{record.name:<8} {record.format:<6} {record.rate_hz:g} Hz  {record.character}  [{record.licence}]")
    print(library.add(tree))  # nothing is read again
    person = library.load("person")

save_image(film_strip(person), "25_person.png")
