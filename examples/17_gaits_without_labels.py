"""Sort gait cycles of unknown gait and person by their principal components, as a locomotion model needs them."""

from dataclasses import replace

import numpy as np

import marey
from marey.lie import SO3
from marey.models import joint_shares, principal_components, sort_gaits, sort_subjects
from marey.motion import Motion, gait_cycles
from marey.picture import compare_strips, save_image
from marey.skeleton import role_map

POSES = 24  # of a cycle


def with_stiff_arms(motion: Motion) -> Motion:
    """Another person: the arms swing a third as far."""
    roles, vectors = role_map(motion.skeleton), motion.rotations.log().copy()
    for joint in (roles[f"{side}_{part}"] for side in ("left", "right") for part in ("shoulder", "elbow")):
        middle = vectors[:, joint].mean(axis=0)
        vectors[:, joint] = middle + (vectors[:, joint] - middle) / 3.0
    return replace(motion, rotations=SO3.exp(vectors))


clips = [*(marey.samples.walk(speed) for speed in (0.9, 1.2, 1.5, 1.8)), marey.samples.run()]
rows, speeds, people = [], [], []
for person, motions in {"loose": clips, "stiff": [with_stiff_arms(clip) for clip in clips]}.items():
    for motion in motions:
        for cycle in (cycle for cycle in gait_cycles(motion) if cycle.side == "left"):
            frames = np.linspace(cycle.start, cycle.stop, POSES, endpoint=False).astype(int)
            rows.append(motion.rotations[frames].log()[:, 1:].ravel())
            speeds.append(cycle.speed_mps)
            people.append(person)

components = principal_components(rows, n_components=4)
largest = joint_shares(components.directions[:, 0], motion.skeleton.num_joints - 1).max()
print(f"{len(rows)} cycles; the busiest joint makes {largest:.0%} of the first component")
gaits = sort_gaits(components.scores(rows), speeds)
for gait, speed in sorted({(gait, round(speed, 1)) for gait, speed in zip(gaits, speeds, strict=True)}):
    print(f"  {gait:4s} {speed:.1f} m/s")

# People are told apart within one gait, from one known cycle each
walks = [i for i, gait in enumerate(gaits) if gait == "walk"]
table = [rows[i] for i in walks]
named = [people[i] for i in walks]
found = sort_subjects(
    principal_components(table).scores(table), {name: named.index(name) for name in dict.fromkeys(named)}
)
print(f"{np.mean([a == b for a, b in zip(found, named, strict=True)]):.0%} of the walks are given to the right person")
save_image(compare_strips([clips[2], with_stiff_arms(clips[2])]), "17_gaits.png")
