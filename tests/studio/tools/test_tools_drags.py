"""Tools under the pointer: what a drag answers, and what it leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marey import samples
from marey.base import InputError, UnknownNameError
from marey.contacts import hold_feet
from marey.kinematics import BoxLimits, load_limits
from marey.lie import SO3
from marey.motion import Motion, contact_positions, find_runs
from marey.pipeline import edit_motion
from marey.pipeline.takes import list_plants
from marey.skeleton import Pose, contact_points
from marey.studio.tools import TOOLS


def begin(tool: str, session: Any, **settings: Any) -> Any:
    return TOOLS[tool].run(session, TOOLS[tool].check({"motion": "walk", **settings}))


def test_a_dragged_wrist_goes_where_it_is_pulled_and_its_key_shows_that(context: Any, walk: Motion) -> None:
    session = context()
    time_s, joint = 0.5, walk.skeleton.index("right_wrist")
    here = walk[30].joint_positions()
    drag = begin("pose", session, time_s=time_s, joint="right_wrist", around_s=0.3)
    target = here[joint] + [0.05, 0.1, 0.05]
    for share in (0.3, 0.7, 1.0):
        answer = drag.move({"target": (here[joint] + share * (target - here[joint])).tolist()})
    pose = Pose(walk.skeleton, answer.arrays["pose_root"], SO3(answer.arrays["pose_rotations"]))
    assert np.linalg.norm(pose.joint_positions()[joint] - target) < 0.002
    # Feet that stand do not move
    for foot in ("left_foot", "right_foot"):
        if f"{foot}" in answer.facts["planted"]:
            j = walk.skeleton.index(foot)
            assert np.linalg.norm(pose.joint_positions()[j] - here[j]) < 0.002
    ended = drag.end({})
    made = edit_motion(walk, [ended.report["layer"]])
    assert np.linalg.norm(made[30].joint_positions()[joint] - target) < 0.002
    far = np.abs(np.arange(walk.num_frames) - 30) >= 19
    np.testing.assert_allclose(made.joint_positions()[far], walk.joint_positions()[far], atol=1e-9)


def test_keys_go_into_the_layer_that_is_chosen(context: Any, walk: Motion) -> None:
    drag = begin("pose", context(), time_s=0.5)
    place = walk[30].joint_positions()[walk.skeleton.index("left_wrist")] + [0.0, 0.08, 0.0]
    drag.move({"joint": "left_wrist", "target": place.tolist()})
    layer = {"id": "l1", **drag.end({}).report["layer"]}
    take = {"clip": "walk", "layers": [layer], "edits": []}
    session = context(project={"takes": {"t": take}}, motions={"t": edit_motion(walk, take["layers"])})
    again = begin("pose", session, motion="t", time_s=0.9, layer="l1")
    wanted = session.motions["t"][54].joint_positions()[walk.skeleton.index("left_wrist")] + [0.0, 0.05, 0.0]
    ended = again.end({"joint": "left_wrist", "target": wanted.tolist()})
    assert ended.report["keys"]["layer"] == "l1"
    made = edit_motion(walk, [layer | {"keys": ended.report["keys"]["keys"]}])
    for frame, target in ((30, place), (54, wanted)):
        at = made[frame].joint_positions()[walk.skeleton.index("left_wrist")]
        assert np.linalg.norm(at - target) < 0.003


def test_a_pose_space_moves_by_its_modes(context: Any, walk: Motion) -> None:
    drag = begin("pose", context(), time_s=0.5, space="pose space")
    first = drag.move({"mode": 0, "deviations": 0.0}).facts["modes"]
    answer = drag.move({"mode": 0, "deviations": 1.5})
    assert answer.facts["modes"][0] == pytest.approx(1.5, abs=1e-3)
    assert answer.facts["modes"][1] == pytest.approx(first[1], abs=1e-3)


def test_coordinates_of_a_clip_spread_by_one_deviation(run: Any, walk: Motion) -> None:
    values = run("coordinates", components=3).arrays["coordinates"]
    assert values.shape == (walk.num_frames, 3)
    np.testing.assert_allclose(values.std(axis=0), 1.0, atol=0.15)


@pytest.mark.parametrize("target", [None, [1.0], [0, 0, float("nan")], "here", [1e9, 0, 0]])
def test_a_target_that_is_no_place_is_refused(context: Any, target: Any) -> None:
    with pytest.raises(InputError):
        begin("pose", context(), time_s=0.5).move({"joint": "head", "target": target})


def test_a_joint_that_does_not_exist_is_refused(context: Any) -> None:
    with pytest.raises(UnknownNameError, match="left_wrist"):
        begin("pose", context(), time_s=0.5).move({"joint": "left_wirst", "target": [0, 1, 0]})


def test_feet_follow_the_end_of_a_contact(context: Any, walk: Motion) -> None:
    held = hold_feet(walk).motion
    assert held.contacts is not None
    names, rate = contact_points(walk.skeleton).names, walk.rate_hz
    runs = [run for run in find_runs(held.contacts.track("left_toe"), 0) if run[0] > 3 and run[1] < 75]
    start, stop = runs[0]
    later = stop + 6
    drag = begin("contacts", context(), point="left_toe", from_s=[start / rate, stop / rate])
    answer = drag.move({"to_s": [start / rate, later / rate]})
    part = answer.arrays["roots"]
    assert answer.facts["first"] + len(part) <= walk.num_frames
    edit = drag.end({"to_s": [start / rate, later / rate]}).report["edit"]
    made = edit_motion(walk, (), [edit])
    at = contact_positions(made)[start:later, names.index("left_toe")]
    was = contact_positions(walk)[start:later, names.index("left_toe")]
    spread = np.linalg.norm(at[-6:] - np.median(at, axis=0), axis=1).max()
    assert spread < 0.25 * np.linalg.norm(was[-1] - np.median(was, axis=0))
    assert made.contacts is not None
    assert (start, later) in find_runs(made.contacts.track("left_toe"), 0)
    # And a contact that is taken away lets the foot go: the track has no run there
    gone = edit_motion(walk, (), [{"kind": "contact", "point": "left_toe", "from_s": edit["from_s"]}])
    assert gone.contacts is not None
    assert not gone.contacts.track("left_toe")[start + 2 : stop - 2].any()


def test_a_contact_of_no_point_is_refused(context: Any) -> None:
    with pytest.raises(UnknownNameError, match="left_heel"):
        begin("contacts", context(), point="left_hel", from_s=[0.1, 0.2])


def test_a_valid_edit_brings_the_hand_there(context: Any, walk: Motion) -> None:
    hand = contact_points(walk.skeleton).names.index("right_hand")
    target = contact_positions(walk)[45, hand] + [0.0, 0.06, 0.0]
    drag = begin("edit", context(), point="right_hand", time_s=0.75, around_s=0.5, physics=False)
    for _ in range(20):
        answer = drag.move({"target": target.tolist()})
    first = answer.facts["first"]
    part = Motion(walk.skeleton, walk.rate_hz, answer.arrays["roots"], SO3(answer.arrays["rotations"]))
    assert np.linalg.norm(contact_positions(part)[45 - first, hand] - target) < 0.01
    edit = drag.end({}).report["edit"]
    made = edit_motion(walk, (), [edit])
    assert np.linalg.norm(contact_positions(made)[45, hand] - target) < 0.01


def test_in_betweens_go_through_the_poses_of_the_timeline(run: Any, walk: Motion) -> None:
    poses = [{"time_s": 0.0, "at_s": 0.1}, {"time_s": 0.6, "at_s": 0.7}, {"time_s": 1.0, "at_s": 1.3}]
    made = run("between", poses=poses, rate_hz=30.0, limits="none", hold_feet=False).motion
    for row in poses:
        wanted = walk[round(row["at_s"] * 60)].joint_positions()
        np.testing.assert_allclose(made[round(row["time_s"] * 30)].joint_positions(), wanted, atol=1e-6)


def test_a_footprint_that_is_dragged_takes_its_foot_along_and_leaves_the_others(context: Any) -> None:
    motion = samples.walk()
    session = context(motions={"whole": motion})
    plants = TOOLS["plants"].make(session, TOOLS["plants"].check({"motion": "whole"})).table
    plant = plants[3]
    (x, _, z), while_s = plant["place"], [plant["start_s"], plant["stop_s"]]
    to = [x + 0.08, z + 0.1]
    drag = begin("footprints", session, motion="whole", foot=plant["foot"], place=[x, z], while_s=while_s)
    seen = drag.move({"to": to})
    made = edit_motion(motion, edits=[drag.end({"to": to}).report["edit"]])
    middle = round(0.5 * sum(while_s) * motion.rate_hz)
    ankle = motion.skeleton.index(f"{plant['foot']}_ankle")
    np.testing.assert_allclose(made.joint_positions()[middle, ankle, [0, 2]], to, atol=0.02)
    # What was shown under the pointer is what is kept
    frame = middle - seen.facts["first"]
    pose = Pose(motion.skeleton, seen.arrays["roots"][frame], SO3(seen.arrays["rotations"][frame]))
    np.testing.assert_allclose(pose.joint_positions()[ankle], made.joint_positions()[middle, ankle], atol=0.01)
    # All other feet stand where they stood
    for before, after in zip(plants[1:], list_plants(made)[1:], strict=True):
        if before is not plant:
            np.testing.assert_allclose(before["place"], after["place"], atol=0.01)
    # Its toes turn it
    turned = list_plants(edit_motion(motion, edits=[drag.end({"turn_deg": 15.0}).report["edit"]]))[3]
    assert turned["heading_deg"] - plant["heading_deg"] == pytest.approx(15.0, abs=1.5)


def test_a_coordinate_of_the_pose_space_is_pulled_to_its_value_at_one_time(context: Any) -> None:
    motion = samples.walk()
    session = context(motions={"whole": motion})
    drag = begin("pose", session, motion="whole", time_s=1.0, around_s=0.4)
    before = drag.move({"mode": 0, "deviations": 0.0}).facts["modes"]
    answer = drag.move({"mode": 0, "deviations": 1.2})
    assert answer.facts["modes"][0] == pytest.approx(1.2, abs=0.02)
    assert answer.facts["modes"][1:] == pytest.approx(before[1:], abs=0.05)
    made = edit_motion(motion, [drag.end({"mode": 0, "deviations": 1.2}).report["layer"]])
    shown = Pose(motion.skeleton, answer.arrays["pose_root"], SO3(answer.arrays["pose_rotations"]))
    np.testing.assert_allclose(made[60].joint_positions(), shown.joint_positions(), atol=2e-3)
    far = np.abs(np.arange(motion.num_frames) - 60) > 25
    np.testing.assert_allclose(made.joint_positions()[far], motion.joint_positions()[far], atol=1e-9)


def test_limits_of_a_file_hold_a_drag(context: Any, walk: Motion, tmp_path: Path) -> None:
    BoxLimits.from_clips([walk], margin_rad=0.01).save(tmp_path / "mine.safetensors")
    session = context(files={"u1": str(tmp_path / "mine.safetensors")})
    limits, poses = load_limits(tmp_path / "mine.safetensors"), []
    place = walk[30].joint_positions()[walk.skeleton.index("left_wrist")] + [0.0, 0.7, 0.2]
    for settings in ({"limits_file": "u1"}, {"limits": "none"}):
        drag = begin("pose", session, time_s=0.5, **settings)
        answer = drag.move({"joint": "left_wrist", "target": place.tolist()})
        poses.append(Pose(walk.skeleton, answer.arrays["pose_root"], SO3(answer.arrays["pose_rotations"])))
    assert limits.violation(poses[0]).max() < 1e-3 < limits.violation(poses[1]).max()
