"""AMASS archives: the right joints, +Y up, and nothing that could run code or fill the memory."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marey import samples
from marey.base import FormatError, InputError, MareyError
from marey.contacts import ensure_contacts
from marey.io import load, save
from marey.io.npz.reader import read_npz
from marey.kinematics import retarget
from marey.lie import SO3, geodesic_distance
from marey.skeleton import HUMAN

UPRIGHT = np.array([np.pi / 2, 0.0, 0.0])  # SMPL rests with +Y up; AMASS turns it to +Z up


def an_archive(path, *, width: int = 156, frames: int = 5, packed: bool = False, **more):
    rng = np.random.default_rng(0)
    poses = 0.1 * rng.normal(size=(frames, width))
    poses[:, :3] = UPRIGHT
    arrays = {
        "poses": poses,
        "trans": rng.normal(size=(frames, 3)),
        "mocap_framerate": 120.0,
        "betas": rng.normal(size=16),
        "gender": "female",
    } | more
    arrays = {name: value for name, value in arrays.items() if value is not None}
    (np.savez_compressed if packed else np.savez)(path, **arrays)
    return arrays


@pytest.mark.parametrize("width", [66, 72, 156, 165])
@pytest.mark.parametrize("packed", [False, True])
def test_the_first_22_joints_are_kept(tmp_path, width, packed):
    arrays = an_archive(tmp_path / "a.npz", width=width, packed=packed)
    motion = read_npz(tmp_path / "a.npz")
    assert motion.skeleton is HUMAN
    assert motion.rate_hz == 120.0
    expected = SO3.exp(arrays["poses"][:, 3:66].reshape(-1, 21, 3))
    assert geodesic_distance(motion.rotations[:, 1:], expected).max() < 1e-12


def test_z_up_becomes_y_up(tmp_path):
    arrays = an_archive(tmp_path / "a.npz")
    motion = read_npz(tmp_path / "a.npz")
    x, y, z = arrays["trans"].T
    np.testing.assert_allclose(motion.root_positions, np.stack([x, z, -y], axis=1), atol=1e-12)
    assert motion.rotations[:, 0].angle().max() < 1e-12  # a body upright in AMASS is at rest with us
    assert motion.source.up == "+z"


def test_a_body_that_faces_along_minus_y_faces_forward(tmp_path):
    """AMASS: upright about x, so that SMPL's +Z (forward) points along -Y; with us that is +Z."""
    poses = np.tile(np.concatenate([UPRIGHT, np.zeros(153)]), (2, 1))
    an_archive(tmp_path / "a.npz", poses=poses, trans=np.zeros((2, 3)))
    motion = read_npz(tmp_path / "a.npz")
    np.testing.assert_allclose(motion.rotations[0, 0] @ np.array([0.0, 0.0, 1.0]), [0.0, 0.0, 1.0], atol=1e-12)


def test_an_archive_that_is_y_up_already_is_left_so(tmp_path):
    poses = np.zeros((4, 156))
    trans = np.arange(12.0).reshape(4, 3)
    an_archive(tmp_path / "a.npz", poses=poses, trans=trans)
    motion = read_npz(tmp_path / "a.npz")
    np.testing.assert_array_equal(motion.root_positions, trans)
    assert any("along +Y already" in note for note in motion.load_report.notes)


def test_the_names_of_newer_archives_are_understood(tmp_path):
    arrays = an_archive(tmp_path / "old.npz")
    poses = arrays["poses"]
    np.savez(
        tmp_path / "new.npz",
        root_orient=poses[:, :3],
        pose_body=poses[:, 3:66],
        trans=arrays["trans"],
        mocap_frame_rate=np.array(120.0),
    )
    old, new = read_npz(tmp_path / "old.npz"), read_npz(tmp_path / "new.npz")
    np.testing.assert_array_equal(old.rotations.wxyz, new.rotations.wxyz)


def test_the_report_says_whose_proportions_are_used(tmp_path):
    an_archive(tmp_path / "a.npz")
    motion = read_npz(tmp_path / "a.npz")
    assert any("proportions of marey.HUMAN" in w for w in motion.load_report.warnings)
    assert motion.source.layout["betas"].shape == (16,)
    assert str(motion.source.layout["gender"]) == "female"


def test_a_gender_kept_as_an_object_is_left_out(tmp_path):
    an_archive(tmp_path / "a.npz", gender=np.array("male", dtype=object))
    assert "gender" not in read_npz(tmp_path / "a.npz").source.layout


def test_a_missing_rate_can_be_given(tmp_path):
    an_archive(tmp_path / "a.npz", mocap_framerate=None)
    motion = read_npz(tmp_path / "a.npz")
    assert motion.rate_hz == 30.0
    assert any("no frame rate in it: 30 Hz is assumed" in w for w in motion.load_report.warnings)
    assert read_npz(tmp_path / "a.npz", rate_hz=60).rate_hz == 60.0
    with pytest.raises(InputError, match="always in metres"):
        read_npz(tmp_path / "a.npz", unit="cm")


def test_a_missing_translation_is_reported(tmp_path):
    an_archive(tmp_path / "a.npz", trans=None)
    motion = read_npz(tmp_path / "a.npz")
    assert any("stays in place" in w for w in motion.load_report.warnings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"poses": np.zeros((5, 10))}, r"poses has shape \(5, 10\)"),
        ({"poses": np.zeros((0, 156))}, "poses has shape"),
        ({"poses": np.zeros(156)}, "poses has shape"),
        ({"poses": None}, r"no motion that marey knows is in it; it holds trans 5x3, mocap_framerate scalar, betas 16"),
        ({"poses": np.full((5, 156), np.nan)}, "holds nan"),
        ({"trans": np.zeros((4, 3))}, "'trans' has shape .* the poses have 5 frames"),
        ({"trans": np.full((5, 3), np.inf)}, "holds inf"),
        ({"mocap_framerate": 0.0}, "rate_hz is 0"),
        ({"mocap_framerate": np.arange(3.0)}, "expected one number"),
        ({"mocap_framerate": "fast"}, "not real numbers"),
        ({"poses": np.array([{"a": 1}], dtype=object)}, "holds Python objects.*could run code"),
    ],
)
def test_damaged_arrays_end_in_a_sentence(tmp_path, change, message):
    an_archive(tmp_path / "bad.npz", **change)
    with pytest.raises(FormatError, match=message):
        read_npz(tmp_path / "bad.npz")


def npy(shape: str, data: bytes, kind: str = "<f8") -> bytes:
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (npy("(1000000000, 156)", b"\0" * 80), "announces 156000000000 values, 80 bytes follow"),
        (npy("(-1, 156)", b"\0" * 80), "is not a plain array"),
        (npy("(2, 'x')", b"\0" * 80), "is not a plain array"),
        (npy("(10,)", b"\0" * 80, "|O"), "holds Python objects"),
        (b"\x93NUMPY\x09\x00", "is not a plain array"),
        (b"plain noise", "is not a plain array"),
        (b"", "is not a plain array"),
    ],
)
def test_a_damaged_member_ends_in_a_sentence(tmp_path, member, message):
    with zipfile.ZipFile(tmp_path / "bad.npz", "w") as archive:
        archive.writestr("poses.npy", member)
    with pytest.raises(FormatError, match=message):
        read_npz(tmp_path / "bad.npz")


def test_a_decompression_bomb_is_not_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("poses.npy", npy("(50000, 156)", bytes(50_000 * 156 * 8)))
    assert (tmp_path / "bomb.npz").stat().st_size < 100_000
    with pytest.raises(FormatError, match="decompression bomb"):
        read_npz(tmp_path / "bomb.npz")


def test_bytes_that_are_no_archive_are_refused(tmp_path):
    for content in (b"", b"PK\x03\x04 cut", b"noise" * 100):
        (tmp_path / "bad.npz").write_bytes(content)
        with pytest.raises(FormatError):
            read_npz(tmp_path / "bad.npz")


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_bytes_are_read_or_refused(tmp_path, data):
    buffer = io.BytesIO()
    an_archive(buffer, frames=1, width=66, packed=True)
    content = bytearray(buffer.getvalue())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "changed.npz").write_bytes(content)
    said = read_or_refused(tmp_path / "changed.npz")
    assert said == "read" or "changed.npz" in said


def read_or_refused(path) -> str:
    try:
        assert np.isfinite(read_npz(path).joint_positions()).all()
    except MareyError as error:
        return str(error)
    return "read"


def test_contacts_travel_with_an_archive(tmp_path):
    walk = ensure_contacts(retarget(samples.walk(), HUMAN))
    save(walk, tmp_path / "walk.npz")
    again = load(tmp_path / "walk.npz")
    assert again.contacts is not None and walk.contacts is not None
    assert again.contacts.names == walk.contacts.names
    np.testing.assert_array_equal(again.contacts.active, walk.contacts.active)
