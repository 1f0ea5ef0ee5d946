"""Any bytes end in a Motion or in a MareyError: quickly, in little memory, never another exception."""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marey.base import MareyError
from marey.io import load
from marey.motion import Motion

PATIENCE_S = 2.0
MEMORY_BYTES = 200_000_000
BROKEN = Path(__file__).parent / "broken"

TORSO = "".join(
    f"JOINT spine{i}\n{{\n  OFFSET 0.0 {9 + i}.5 -1.25\n  CHANNELS 3 Zrotation Yrotation Xrotation\n"
    for i in range(1, 6)
)
BVH = (
    "HIERARCHY\nROOT Hips\n{\n  OFFSET 0.00 0.00 0.00\n"
    "  CHANNELS 6 Xposition Yposition Zposition Zrotation Yrotation Xrotation\n"
    f"{TORSO}End Site\n{{\nOFFSET 0 12 0\n}}\n{'}' * 5}\n"
    "  JOINT LeftLeg\n  {\n    OFFSET 8.5 -90.25 1e-3\n    CHANNELS 1 Xrotation\n  }\n}\n"
    "MOTION\nFrames: 6\nFrame Time: .0083333\n"
) + "".join(" ".join(f"{np.sin(f + c) * 30:.4f}" for c in range(22)) + "\n" for f in range(6))
LONG_BVH = BVH.replace("Frames: 6", "Frames: 66") + "".join(
    " ".join(f"{np.cos(f * c) * 90:.4f}" for c in range(22)) + "\n" for f in range(60)
)
ASF = (BROKEN / "amc" / "small.asf").read_text()
AMC = (BROKEN / "amc" / "ok_small.amc").read_text()

few = settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
numbers = st.sampled_from(
    ["-1", "0", "1e9", "1000000000", "nan", "1e400", "1e-400", "2147483648", "9" * 40, "0.5", ".", "-"]
)


def peak_bytes() -> int:
    """Most memory this process ever held."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def survives(path: Path) -> Motion | None:
    """Load, and hold the reader to its promise."""
    before, start = peak_bytes(), time.process_time()
    try:
        motion = load(path)
    except MareyError:
        motion = None
    assert time.process_time() - start < PATIENCE_S
    assert peak_bytes() - before < MEMORY_BYTES
    if motion is not None:
        assert np.isfinite(motion.joint_positions()).all()
    return motion


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """The first use of a kernel compiles it, which is no fault of a file."""
    for name in ("ok_bvh_crlf.bvh", "amc/ok_small.amc", "bvh_value_word.bvh"):
        with contextlib.suppress(MareyError):
            load(BROKEN / name).joint_positions()


@st.composite
def damaged(draw: Callable[..., int], text: str) -> bytes:
    """A good file after one to four accidents."""
    data = text.encode()
    for _ in range(draw(st.integers(1, 4))):
        lines = data.split(b"\n")
        i = draw(st.integers(0, len(lines) - 1))
        kind = draw(st.integers(0, 7))
        if kind == 0:
            del lines[i]
        elif kind == 1:
            lines.insert(i, lines[i])
        elif kind == 2:
            j = draw(st.integers(0, len(lines) - 1))
            lines[i], lines[j] = lines[j], lines[i]
        elif kind == 3:
            words = lines[i].split(b" ")
            words[draw(st.integers(0, len(words) - 1))] = draw(numbers).encode()
            lines[i] = b" ".join(words)
        data = b"\n".join(lines)
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        if kind == 4:
            data = data[:at]
        elif kind == 5:
            data = data[:at] + draw(st.binary(min_size=1, max_size=4)) + data[at + 1 :]
        elif kind == 6:
            data = (
                data[:at] + draw(st.sampled_from([b"{", b"}", b"\r", b"\0", b"(", b":", b"#", b"\xff\xfe"])) + data[at:]
            )
        elif kind == 7:
            data = data[at:] + data[:at]
    return data


@few
@given(data=damaged(BVH))
def test_damaged_bvh_files_end_well(tmp_path, data):
    path = tmp_path / "clip.bvh"
    path.write_bytes(data)
    survives(path)


@few
@given(data=damaged(LONG_BVH))
def test_damaged_long_tables_end_well(tmp_path, data):
    path = tmp_path / "clip.bvh"
    path.write_bytes(data)
    survives(path)


@few
@given(data=damaged(ASF))
def test_damaged_asf_files_end_well(tmp_path, data):
    path = tmp_path / "clip.asf"
    path.write_bytes(data)
    survives(path)


@few
@given(data=damaged(AMC), skeleton=st.one_of(st.just(ASF.encode()), damaged(ASF)))
def test_damaged_amc_files_end_well(tmp_path, data, skeleton):
    (tmp_path / "clip.asf").write_bytes(skeleton)
    path = tmp_path / "clip.amc"
    path.write_bytes(data)
    survives(path)


@few
@given(data=st.binary(max_size=2000), suffix=st.sampled_from([".bvh", ".asf", ".amc"]))
def test_random_bytes_end_well(tmp_path, data, suffix):
    (tmp_path / "clip.asf").write_text(ASF)
    path = tmp_path / f"noise{suffix}"
    path.write_bytes(data)
    survives(path)


def test_the_undamaged_files_load(tmp_path):
    (tmp_path / "clip.asf").write_text(ASF)
    for suffix, text in ((".bvh", BVH), (".bvh", LONG_BVH), (".amc", AMC), (".asf", ASF)):
        path = tmp_path / f"clip{suffix}"
        path.write_text(text)
        assert survives(path) is not None


@pytest.mark.mocap
@few
@given(draw=st.data())
def test_damaged_headers_of_real_files_end_well(mocap, tmp_path, draw):
    files = sorted((mocap / "cmu-bvh").glob("*.bvh"))
    data = files[draw.draw(st.integers(0, len(files) - 1))].read_bytes()
    text = b"\n".join(data.split(b"\n")[:190]).decode() + "\n"
    path = tmp_path / "clip.bvh"
    path.write_bytes(draw.draw(damaged(text)))
    survives(path)


def test_a_file_of_braces_ends_quickly(tmp_path):
    path = tmp_path / "clip.bvh"
    path.write_bytes(b"HIERARCHY\nROOT a" + b"{" * 1_000_000)
    assert survives(path) is None


def test_an_asf_that_names_a_hundred_thousand_bones_ends_quickly(tmp_path):
    path = tmp_path / "clip.asf"
    bones = "".join(f"begin\nname b{i}\nlength 1\nend\n" for i in range(100_000))
    path.write_text(f":bonedata\n{bones}:hierarchy\nroot b0\n")
    assert survives(path) is None


def test_an_amc_of_empty_frames_for_a_wide_skeleton_takes_little_memory(tmp_path):
    bones = "".join(f"begin\nname b{i}\ndirection 0 1 0\nlength 1\ndof rx ry rz\nend\n" for i in range(9000))
    names = " ".join(f"b{i}" for i in range(9000))
    (tmp_path / "clip.asf").write_text(f":bonedata\n{bones}:hierarchy\nbegin\nroot {names}\nend\n")
    path = tmp_path / "clip.amc"
    path.write_text("".join(f"{i}\nb0 1 2 3\n" for i in range(1, 5000)))
    assert survives(path) is None
