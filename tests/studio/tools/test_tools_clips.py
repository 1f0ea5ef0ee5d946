"""Tools over whole clips, files and the library: results measured from the outside."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import marey
from marey.base import InputError, UnknownNameError
from marey.lie import geodesic_distance
from marey.motion import Layer, LayerKey, Motion, apply_layers, contact_positions, mirror
from marey.pipeline.takes import play_strips
from marey.pipeline.tools import CancelledJobError
from marey.skeleton import contact_points, role_map
from marey.studio.tools import TOOLS
from marey.studio.tools.files import MOTION_FORMATS


def test_every_tool_describes_itself_and_takes_its_own_defaults() -> None:
    for tool in TOOLS.values():
        shown = tool.to_json()
        assert shown["help"].endswith(".")
        assert all(row["help"].endswith(".") for row in shown["parameters"])
        full = tool.check({})
        assert set(full) == {row["name"] for row in shown["parameters"]}
        # Defaults lie in their own ranges
        assert tool.check({name: value for name, value in full.items() if value is not None}) == full
    shortcuts = [tool.shortcut for tool in TOOLS.values() if tool.shortcut]
    assert len(shortcuts) == len(set(shortcuts))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length_m": float("nan")}, "not a number"),
        ({"length_m": True}, "not a number"),
        ({"length_m": 9.0}, "at most 1.8 m"),
        ({"iterations": 1.5}, "whole number"),
        ({"lenght_m": 1.0}, "length_m"),
    ],
)
def test_a_wrong_setting_is_one_sentence_with_its_fix(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, UnknownNameError), match=message):
        TOOLS["jump"].check(settings)


@pytest.mark.parametrize("value", [[1.0, 0.5], [0.0], "all", [0.0, float("inf")]])
def test_a_range_has_a_beginning_and_a_later_end(value: Any) -> None:
    with pytest.raises(InputError):
        TOOLS["repair"].check({"range_s": value})


def test_clean_holds_feet_that_slid(run: Any, walk: Motion, context: Any) -> None:
    # A drift of the root makes standing feet slide by 20 cm/s
    drift = LayerKey(0.0, "pelvis", offset=np.zeros(3)), LayerKey(1.5, "pelvis", offset=np.array([0.3, 0.0, 0.0]))
    slid = apply_layers(walk, [Layer(drift)])
    session = context(motions={"slid": slid})
    made = run("clean", session, motion="slid", **{"time-base": False, "floor": False})
    row = next(row for row in made.table if row["measure"].startswith("foot_skate") or "scraped" in row["measure"])
    assert row["after"] < row["before"]
    assert [words for _, words in session.said][-1].startswith("plants")
    assert made.report["steps"][-1]["step"] == "plants"


def test_a_cancelled_job_ends_and_says_so(run: Any, context: Any) -> None:
    with pytest.raises(CancelledJobError):
        run("clean", context(stop_after=2))


def test_retarget_puts_the_motion_on_the_joints_of_another_clip(run: Any, context: Any, walk: Motion) -> None:
    tall = marey.retarget(walk, marey.skeleton.human(2.0))
    made = run("retarget", context(motions={"tall": tall}), target="tall")
    np.testing.assert_allclose(made.motion.skeleton.offsets, tall.skeleton.offsets)
    assert made.motion.num_frames == walk.num_frames


def test_hold_turns_the_toes_in(run: Any) -> None:
    plain, turned = run("hold").motion, run("hold", toes_in_deg=15.0).motion
    names = contact_points(plain.skeleton).names
    heads: list[float] = []
    for motion in (plain, turned):
        points = contact_positions(motion)
        sole = points[:, names.index("left_toe")] - points[:, names.index("left_heel")]
        heads.append(float(np.median(np.arctan2(sole[:, 0], sole[:, 2]))))
    # +X is to the left: the left toes turn to the right
    assert np.rad2deg(heads[0] - heads[1]) == pytest.approx(15.0, abs=3.0)


def test_measure_has_a_row_before_and_after(run: Any) -> None:
    made = run("measure", against="walk")
    assert made.motion is None
    row = next(row for row in made.table if row["name"] == "way_m")
    assert row["value"] == pytest.approx(row["source"])


def test_bake_trims_and_mirrors(run: Any, walk: Motion) -> None:
    made = run("bake", edits=[{"kind": "trim", "start_s": 0.5, "stop_s": 1.0}, {"kind": "mirror"}]).motion
    wanted = mirror(walk[30:61])
    np.testing.assert_array_equal(made.rotations.wxyz, wanted.rotations.wxyz)
    with pytest.raises(UnknownNameError, match="trim"):
        run("bake", edits=[{"kind": "trims"}])
    with pytest.raises(InputError, match="time_s"):
        run("bake", layers=[{"keys": [{"joint": "head", "rotation": [1, 0, 0, 0]}]}])


def test_a_thumbnail_is_the_clip_from_its_side(run: Any) -> None:
    made, walk = run("thumbnail", clip="walk"), marey.samples.walk()
    places = made.arrays["places"]
    assert places.shape == (32, walk.skeleton.num_joints, 2) and len(made.report["parents"]) == walk.skeleton.num_joints
    # Heights are true, the root stands in the middle, and legs swing to both sides of it
    np.testing.assert_allclose(np.ptp(places[0, :, 1]), np.ptp(walk.joint_positions()[0, :, 1]))
    np.testing.assert_allclose(places[:, 0, 0], 0.0, atol=1e-12)
    assert places[..., 0].min() < -0.2 and places[..., 0].max() > 0.2 and places[..., 1].min() == 0.0
    with pytest.raises(UnknownNameError):
        run("thumbnail", clip="/etc/hosts")


def test_a_sequence_plays_strips_where_they_lie_and_blends_where_they_overlap(context: Any, walk: Motion) -> None:
    session, rate = context(), walk.rate_hz
    one = {"take": "walk", "in_s": 0.0, "out_s": 59 / rate, "blend_s": 0.0, "loop": 1.0}
    places = (0.5, 0.5 + 40 / rate, 2.5)  # held before the first, an overlap of 20 frames, a gap
    made = play_strips(session.motion, [one | {"start_s": start_s} for start_s in reversed(places)])
    assert made.num_frames == round(places[2] * rate) + 60
    np.testing.assert_allclose(
        made.root_positions[: round(0.5 * rate)], walk.root_positions[:1].repeat(round(0.5 * rate), 0)
    )
    held = slice(round((places[1]) * rate) + 60, round(places[2] * rate))
    assert np.ptp(made.joint_positions()[held], axis=0).max() == 0.0
    # The root never jumps: it is as fast as the walk at most, also inside the cross-fade
    speed = np.linalg.norm(np.diff(made.root_positions, axis=0), axis=1).max()
    assert speed < 1.5 * np.linalg.norm(np.diff(walk.root_positions, axis=0), axis=1).max()


def test_strips_loop_and_go_over_into_each_other_without_a_jump(run: Any, walk: Motion) -> None:
    rows = [
        {"take": "walk", "start_s": 0.0, "in_s": 0.0, "out_s": 1.0, "loop": 2.0},
        {"take": "walk", "start_s": 2.0, "in_s": 0.2, "out_s": 1.2, "blend_s": 0.4},
    ]
    made = run("strips", strips=rows, hold_feet=False).motion
    assert made.num_frames == 2 * 61 + 61 - 24
    steps = np.linalg.norm(np.diff(made.root_positions, axis=0), axis=1)
    own = np.linalg.norm(np.diff(walk.root_positions, axis=0), axis=1)
    assert steps.max() < 2.5 * own.max()
    # In the cross-fade no joint turns faster than the clips turn theirs, give or take
    speeds = geodesic_distance(made.rotations[1:], made.rotations[:-1])[98:].max()
    assert speeds < 2.0 * geodesic_distance(walk.rotations[1:], walk.rotations[:-1]).max()


@pytest.mark.parametrize("suffix", [f for f in MOTION_FORMATS if f not in ("usda", "fbx", "trc", "csv", "npz")])
def test_exported_files_hold_the_motion(run: Any, walk: Motion, suffix: str, tmp_path: Path) -> None:
    ((name, data),) = run("export", format=suffix).files.items()
    (tmp_path / name).write_bytes(data)
    read = marey.load(tmp_path / name)
    order = [read.skeleton.index(joint) for joint in walk.skeleton.names]
    np.testing.assert_allclose(read.joint_positions()[:, order], walk.joint_positions(), atol=2e-4)


def test_an_imported_file_says_what_the_reader_decided(run: Any, context: Any, walk: Motion, tmp_path: Path) -> None:
    marey.save(walk, tmp_path / "take.bvh")
    session = context(files={"u1": str(tmp_path / "take.bvh")})
    made = run("import", session, file="u1", name="mine")
    (row,) = made.table
    assert list(made.motions) == ["mine"]
    assert row["rate_hz"] == pytest.approx(60.0)
    assert row["is_human"]
    assert row["roles"]["left_knee"] == "left_knee"
    assert row["height_m"] == pytest.approx(1.75, abs=0.05)
    # Corrections count
    twice = run("import", session, file="u1", rate_hz=30.0, unit="m", up="y")
    assert twice.motion.duration_s == pytest.approx(2 * walk.duration_s)
    with pytest.raises(UnknownNameError, match="jump"):
        run("import", session, file="u1", clips=["jump"])


def test_roles_that_are_told_at_the_import_are_those_that_engines_find(
    run: Any, context: Any, walk: Motion, tmp_path: Path
) -> None:
    # Left and right of the hips are exchanged by name, and nothing else says what a bone is
    hips = {"left_hip": "right", "right_hip": "left"}
    bones = tuple(hips.get(name, f"bone {j}") for j, name in enumerate(walk.skeleton.names))
    marey.save(replace(walk, skeleton=replace(walk.skeleton, names=bones)), tmp_path / "take.bvh")
    session = context(files={"u1": str(tmp_path / "take.bvh")})
    found = run("contents", session, file="u1").report["joints"]
    assert set(bones) <= set(found)
    roles = dict(zip(walk.skeleton.names, bones, strict=True))
    made = run("import", session, file="u1", roles=roles)
    read = role_map(made.motion.skeleton)
    assert {role: made.motion.skeleton.names[joint] for role, joint in read.joints.items()} == {r: r for r in roles}
    order = [made.motion.skeleton.index(name) for name in walk.skeleton.names]
    np.testing.assert_allclose(made.motion.joint_positions()[:, order], walk.joint_positions(), atol=2e-4)
    with pytest.raises(UnknownNameError, match="bone 99"):
        run("import", session, file="u1", roles={"left_hip": "bone 99"})


def test_the_library_keeps_finds_tags_and_gives_back(
    run: Any, walk: Motion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAREY_CACHE", str(tmp_path))
    run("library", action="add", tags="calm, mine")
    (row,) = [row for row in run("library", tags="calm").table if "shipped" not in row["tags"]]
    assert row["name"] == "walk"
    run("library", action="tag", clip=row["id"], tags="keeper")
    (row,) = run("library", tags="keeper").table
    assert set(row["tags"]) == {"calm", "mine", "keeper"}
    assert run("thumbnail", clip=row["id"]).text == row["name"]
    back = run("library", action="load", clip=row["id"]).motion
    np.testing.assert_array_equal(back.root_positions, walk.root_positions)
    run("library", action="remove", clip=row["id"])
    assert not run("library", tags="calm").table
    assert any(row["name"] == "run" for row in run("library", text="ru").table)


def test_a_take_is_exported_with_all_that_it_is_made_of(run: Any, context: Any, walk: Motion, tmp_path: Path) -> None:
    takes = {
        "t1": {"name": "cut", "clip": "walk", "recipe": None, "edits": [{"kind": "mirror"}]},
        "t2": {"name": "joined", "clip": "walk", "recipe": {
            "tool": "strips", "inputs": {}, "seed": 0,
            "settings": {"strips": [{"take": "t1", "start_s": 0.0}, {"take": "walk", "start_s": 2.0, "blend_s": 0.2}]},
        }},
    }  # fmt: skip
    session = context(project={"takes": takes, "clips": {"walk": {}}}, motions={"t1": mirror(walk)})
    made = run("export", session, motion="t2", format="recipe")
    with zipfile.ZipFile(BytesIO(made.files["recipe.zip"])) as bundle:
        bundle.extractall(tmp_path)
    from marey.pipeline import load_recipe, run_recipe

    again = run_recipe(load_recipe(tmp_path / "recipe.toml"), TOOLS).motion
    shown = run("strips", session, strips=takes["t2"]["recipe"]["settings"]["strips"]).motion
    np.testing.assert_array_equal(again.rotations.wxyz, shown.rotations.wxyz)
    assert again.name == "joined"
