"""The clip file: every bit of a motion comes back, and damaged files say what is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from marey.base import FormatError, InputError, MareyError, MissingFileError
from marey.io import read_clip, write_clip
from marey.io.clip import CLIP_VERSION, clip_bytes
from marey.lie import SO3
from marey.motion import Contacts, LoadReport, Motion, Source
from marey.skeleton import HUMAN, EulerLimits, Skeleton

VERSIONS = Path(__file__).parent / "versions"


def a_motion(frames: int = 7, seed: int = 0) -> Motion:
    rng = np.random.default_rng(seed)
    axis = SO3.exp([0.1, -0.2, 0.3])
    limits = (
        EulerLimits("left_knee", "x", np.array([-0.1]), np.array([2.5]), SO3.identity()),
        EulerLimits("left_hip", "xyz", np.array([-np.inf, -1.0, -0.5]), np.array([1.0, 1.1, np.inf]), axis),
    )
    skeleton = Skeleton(HUMAN.names, HUMAN.parents, HUMAN.offsets, HUMAN.tips, limits, "Ünïcode body")
    layout = {"order": ("Zrotation", "Xrotation"), "ends": {3: np.array([0.0, 1.5, -0.0])}, "flag": True, "none": None}
    source = Source("walk.bvh", "bvh", "cm", 0.01, "+z", layout, rng.normal(size=(frames, 9)), rng.normal(size=(1, 9)))
    return Motion(
        skeleton,
        30000 / 1001,
        rng.normal(size=(frames, 3)),
        SO3.exp(rng.normal(size=(frames, 22, 3))),
        Contacts(("left_heel", "right_heel"), rng.random((frames, 2)) > 0.5),
        rng.normal(size=(frames, 22, 3)),
        source,
        LoadReport(["the rate looks wrong"], ["read as centimetres"]),
        "walk «1»",
    )


def bits(array: np.ndarray) -> bytes:
    return array.tobytes() + str(array.shape).encode() + array.dtype.str.encode()


def test_every_field_comes_back_bit_for_bit(tmp_path):
    motion = a_motion()
    write_clip(motion, tmp_path / "a.safetensors")
    back = read_clip(tmp_path / "a.safetensors")
    for name in ("names", "name"):
        assert getattr(back.skeleton, name) == getattr(motion.skeleton, name)
    for name in ("parents", "offsets", "tips"):
        assert bits(getattr(back.skeleton, name)) == bits(getattr(motion.skeleton, name))
    assert bits(back.root_positions) == bits(motion.root_positions)
    assert bits(back.rotations.wxyz) == bits(motion.rotations.wxyz)
    assert bits(back.translations) == bits(motion.translations)
    assert bits(back.contacts.active) == bits(motion.contacts.active)
    assert back.contacts.names == motion.contacts.names
    assert (back.rate_hz, back.name) == (motion.rate_hz, motion.name)
    assert back.load_report.warnings == motion.load_report.warnings
    assert back.load_report.notes == motion.load_report.notes


def test_joint_limits_come_back_with_their_infinities(tmp_path):
    motion = a_motion()
    write_clip(motion, tmp_path / "a.safetensors")
    for ours, theirs in zip(read_clip(tmp_path / "a.safetensors").skeleton.limits, motion.skeleton.limits, strict=True):
        assert (ours.joint, ours.order) == (theirs.joint, theirs.order)
        assert bits(ours.low_rad) == bits(theirs.low_rad)
        assert bits(ours.high_rad) == bits(theirs.high_rad)
        assert bits(ours.axis.wxyz) == bits(theirs.axis.wxyz)


def test_the_source_comes_back_with_its_channels_and_layout(tmp_path):
    motion = a_motion()
    write_clip(motion, tmp_path / "a.safetensors")
    ours, theirs = read_clip(tmp_path / "a.safetensors").source, motion.source
    assert (ours.path, ours.format, ours.unit, ours.metres_per_unit, ours.up) == ("walk.bvh", "bvh", "cm", 0.01, "+z")
    assert bits(ours.channels) == bits(theirs.channels)
    assert bits(ours.dropped) == bits(theirs.dropped)
    assert ours.layout["order"] == ("Zrotation", "Xrotation")
    assert bits(ours.layout["ends"][3]) == bits(theirs.layout["ends"][3])
    assert ours.layout["flag"] is True
    assert ours.layout["none"] is None


def test_channels_can_be_left_out(tmp_path):
    motion = a_motion()
    write_clip(motion, tmp_path / "a.safetensors", channels=False)
    back = read_clip(tmp_path / "a.safetensors")
    assert back.source.channels is None
    assert back.source.path == "walk.bvh"


def test_a_bare_motion_comes_back_bare(tmp_path):
    motion = Motion(HUMAN, 60.0, np.zeros((2, 3)), SO3.identity(2, 22))
    write_clip(motion, tmp_path / "a.safetensors")
    back = read_clip(tmp_path / "a.safetensors")
    assert back.contacts is None
    assert back.translations is None
    assert back.source is None
    assert back.load_report.warnings == ()


def test_the_same_motion_makes_the_same_bytes(tmp_path):
    write_clip(a_motion(), tmp_path / "a.safetensors")
    written = (tmp_path / "a.safetensors").read_bytes()
    assert written == clip_bytes(a_motion())
    assert written == clip_bytes(read_clip(tmp_path / "a.safetensors"))


def test_a_lazy_warning_is_kept(tmp_path):
    motion = replace(a_motion(), load_report=LoadReport(later=lambda: ["found late"]))
    write_clip(motion, tmp_path / "a.safetensors")
    assert read_clip(tmp_path / "a.safetensors").load_report.warnings == ("found late",)


def test_the_rate_can_be_overridden_but_not_the_unit(tmp_path):
    write_clip(a_motion(), tmp_path / "a.safetensors")
    assert read_clip(tmp_path / "a.safetensors", rate_hz=60).rate_hz == 60.0
    with pytest.raises(InputError, match="always in metres"):
        read_clip(tmp_path / "a.safetensors", unit="cm")


def test_arrays_can_be_read_by_any_safetensors_tool(tmp_path):
    motion = a_motion()
    write_clip(motion, tmp_path / "a.safetensors")
    np.testing.assert_array_equal(load_file(tmp_path / "a.safetensors")["rotations"], motion.rotations.wxyz)


def test_files_of_every_past_version_are_still_readable():
    kept = sorted(VERSIONS.glob("clip-v*.safetensors"))
    assert [int(file.stem.removeprefix("clip-v")) for file in kept] == list(range(1, CLIP_VERSION + 1))
    for file in kept:
        back, motion = read_clip(file), a_motion(frames=3, seed=1)
        np.testing.assert_allclose(back.rotations.wxyz, motion.rotations.wxyz, atol=1e-14)
        assert back.skeleton.limits[1].joint == "left_hip"
        assert back.contacts.names == ("left_heel", "right_heel")


def rewritten(tmp_path: Path, change, tensors=None) -> Path:
    """A clip file whose description, or tensors, were changed."""
    path = tmp_path / "changed.safetensors"
    write_clip(a_motion(), path)
    arrays = load_file(path)
    described = json.loads(json.loads(header_of(path))["__metadata__"]["marey"])
    change(described)
    save_file(arrays | (tensors or {}), path, metadata={"marey": json.dumps(described)})
    return path


def header_of(path: Path) -> bytes:
    content = path.read_bytes()
    return content[8 : 8 + int.from_bytes(content[:8], "little")]


def test_a_newer_version_is_refused_with_advice(tmp_path):
    path = rewritten(tmp_path, lambda described: described.update(clip_version=CLIP_VERSION + 1))
    with pytest.raises(FormatError, match=f"clip version {CLIP_VERSION + 1}.*Upgrade marey"):
        read_clip(path)


@pytest.mark.parametrize(
    ("change", "tensors", "message"),
    [
        (lambda d: d.pop("joints"), None, "a field is missing"),
        (lambda d: d.update(joints="pelvis"), None, "a list of names was expected"),
        (lambda d: d.update(rate_hz=-1.0), None, "rate_hz is -1.0"),
        (lambda d: d.update(clip_version="one"), None, "not a marey clip"),
        (lambda d: d.update(contacts=["a"]), None, "contacts has shape"),
        (lambda d: d["limits"].append(["left_knee", "xyz"]), None, "a field is missing"),
        (lambda d: None, {"rotations": np.zeros((7, 22, 4))}, "is zero, so it is no rotation"),
        (lambda d: None, {"rotations": np.ones((7, 21, 4))}, "rotations has batch"),
        (lambda d: None, {"root_positions": np.full((7, 3), np.nan)}, "root_positions holds nan"),
        (lambda d: None, {"root_positions": np.zeros((7, 3), dtype=np.float32)}, "holds float32"),
        (lambda d: None, {"parents": np.arange(22)}, "joint 0 must be the only root"),
        (lambda d: None, {"offsets": np.zeros((4, 3))}, "offsets has shape"),
    ],
)
def test_a_damaged_field_is_named(tmp_path, change, tensors, message):
    with pytest.raises(FormatError, match=message):
        read_clip(rewritten(tmp_path, change, tensors))


def raw(header: bytes, data: bytes = b"", length: int | None = None) -> bytes:
    return (len(header) if length is None else length).to_bytes(8, "little") + header + data


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\x01\x02", "longer than the file"),
        (raw(b"{}", length=10**15), "longer than the file"),
        (raw(b"not json at all "), "not a readable safetensors file"),
        (raw(b"[" * 5000), "not a readable safetensors file"),
        (raw(b"{}"), "not a marey clip"),
        (raw(b'{"a":{"dtype":"F64","shape":[1000000000],"data_offsets":[0,8]}}', b"\0" * 8), "not a readable"),
        (
            raw(
                b'{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},"b":{"dtype":"F64","shape":[1],"data_offsets":[4,12]}}',
                b"\0" * 12,
            ),
            "not a readable",
        ),
        (raw(json.dumps({"__metadata__": {"marey": "[" * 100_000}}).encode()), "nested too deeply"),
        (raw(json.dumps({"__metadata__": {"marey": "[1, 2]"}}).encode()), "not a marey clip"),
        (raw(json.dumps({"__metadata__": {"marey": "{\n,"}}).encode()), ":2: not valid JSON"),
    ],
)
def test_bytes_that_are_no_clip_are_refused(tmp_path, content, message):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message):
        read_clip(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(MissingFileError, match="Check the path"):
        read_clip(tmp_path / "none.safetensors")
    with pytest.raises(MissingFileError, match="It is a folder"):
        read_clip(tmp_path)


def test_a_layout_that_is_no_plain_data_is_refused_on_writing():
    motion = a_motion()
    with pytest.raises(InputError, match="holds a function"):
        clip_bytes(replace(motion, source=replace(motion.source, layout={"f": bits})))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_clip_with_changed_bytes_is_read_or_refused(tmp_path, data):
    content = bytearray(clip_bytes(a_motion(frames=2)))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, 4000))] = data.draw(st.integers(0, 255))
    path = tmp_path / "changed.safetensors"
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))] if data.draw(st.booleans()) else content)
    said = read_or_refused(path)
    assert said == "read" or "changed.safetensors" in said


def read_or_refused(path: Path) -> str:
    try:
        read_clip(path)
    except MareyError as error:
        return str(error)
    return "read"
