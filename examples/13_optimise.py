"""Optimise a jump from its footprints alone, with a style and from a store, then edit a walk; all stay valid."""

from tempfile import TemporaryDirectory

import numpy as np

import marey
from marey.dynamics import JointTree
from marey.motion import contact_positions
from marey.picture import render_motion, save_image
from marey.skeleton import contact_points
from marey.spacetime import (
    ClipSelection,
    EditIterate,
    MotionStore,
    PointPin,
    RepairSettings,
    StoreAnswer,
    StoreEntry,
    ValidEditor,
    build_flip_problem,
    build_pose_style,
    build_run_problem,
    build_walk_problem,
    edit_kinematically,
    load_problem,
    make_valid,
    optimize,
    optimize_styled,
    parse_problem,
    problem_to_toml,
    save_problem,
    select_clips,
)

# A problem is plain data: phases with contacts, and keys. It has a TOML form, which `marey optimize` reads.
for name in marey.samples.problem_names():
    problem = load_problem(marey.samples.problem_file(name))
    print(f"{name}: {len(problem.phases)} phases, {sum(phase.duration_s for phase in problem.phases):.1f} s")
for problem in (build_walk_problem((0.7, 0.8)), build_run_problem((1.1, 1.2)), build_flip_problem()):
    save_problem(problem, f"13_{problem.name}.toml")  # from its measures: lengths of steps [m], time in the air
problem = marey.samples.jump_problem(length_m=1.0, rise_m=0.3)
save_problem(problem, "13_problem.toml")
assert parse_problem(problem_to_toml(problem)) == problem
print(optimize(problem).sentence)

# Clips whose contacts and direction are those of a problem: what a behaviour for it is fitted to.
clips = [marey.samples.walk(), marey.samples.jump()]
chosen: ClipSelection = select_clips(clips, problem)
print(f"phases {chosen.pattern}: {[clips[i].name for i in chosen.indices]}; {'; '.join(chosen.report)}")

# A style adds a cost of poses to the objective: here the free arm hangs low between the bars.
bars = load_problem(marey.samples.problem_file("monkey-bars"))
low = build_pose_style(JointTree.fang22(), {"left_elbow": 0.6, "right_elbow": 0.6}, weight=2.0)
print(optimize_styled(bars, styles=[low]).sentence)

# A store answers from the nearest motion it knows, refines it within a quota, and keeps what is better.
with TemporaryDirectory() as folder:
    store = MotionStore(folder)
    for _ in range(2):
        answer: StoreAnswer = store.request(bars, quota_s=10.0)
        entry: StoreEntry = answer.entry
        print(f"distance {answer.distance:g}, violation {entry.violation:.1e}, version {entry.version}")

# An editor searches for a moment after every change, and shows each motion on the way.
walk = make_valid(marey.samples.walk(seconds=3.0), settings=RepairSettings(wander_m=0.008)).motion
editor = ValidEditor(walk, start_s=1.0, stop_s=2.5)
hand = contact_positions(walk)[105, contact_points(walk.skeleton).names.index("right_hand")]
for height_m in (0.1, 0.3):
    pin = PointPin("right_hand", 1.75, hand + np.array([0.0, height_m, 0.1]))
    editor.pin(pin)
    shown: list[EditIterate] = []
    found = editor.improve(quota_s=20.0, on_iterate=shown.append)
    report = editor.report(found)
    print(f"raised by {height_m} m: {len(shown)} motions shown, {100 * report.valid_fraction:.0f} % of the clip valid")
print(edit_kinematically(walk, [pin]).sentence)

save_image(render_motion([walk, found.motion], [90, 105, 120]), "13_optimise.png")
