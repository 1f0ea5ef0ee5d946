"""Files made to exhaust a reader: large, deep or crowded, but not damaged. They end soon and small, in a sentence."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

LOAD = """
import resource, sys, time
from marey.base import MareyError
from marey.io import load
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.process_time()
try:
    said = repr(load(sys.argv[1]))
except MareyError as error:
    said = "refused " + str(error)[:300]
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
print(f"{time.process_time() - began:.3f} {grown:.1f} {said}")
"""


def crowded_gltf() -> bytes:
    return b'{"asset": {"version": "2.0"}, "nodes": [' + b"{}," * 4_000_000 + b"{}]}"


def chain_gltf() -> bytes:
    nodes = [{"children": [i + 1]} for i in range(99_998)] + [{}]
    skin = {"joints": list(range(0, 99_999, 9))}
    return json.dumps({"asset": {"version": "2.0"}, "nodes": nodes, "skins": [skin]}).encode()


def crowded_clip() -> bytes:
    entry = '"t%d":{"dtype":"F64","shape":[0],"data_offsets":[0,0]}'
    header = ("{" + ",".join(entry % i for i in range(100_000)) + "}").encode()
    return len(header).to_bytes(8, "little") + header


def wide_trc() -> bytes:
    head = "PathFileType\t4\nDataRate\tNumFrames\tNumMarkers\tUnits\n100\t1\t10000\tmm\n"
    names = "Frame#\tTime\t" + "\t\t\t".join(f"m{i}" for i in range(10_000))
    return (head + names + "\n\n" + ("1\t0\t" + "\t" * 29_999 + "\n") * 20 + "x").encode()


def long_deepmimic() -> bytes:
    return b'{"Frames": [' + b"[1]," * 3_000_000 + b"[1]]}"


def long_c3d() -> bytes:
    return b"\x02\x50" + b"\xff" * 30_000_000


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("crowded.gltf", crowded_gltf, "more than 1000000 values"),
        ("chain.gltf", chain_gltf, "joints; at most 10000 are read"),
        ("crowded.safetensors", crowded_clip, "not a marey clip"),
        ("wide.trc", wide_trc, "coordinates, found"),
        ("long.json", long_deepmimic, "more than 1000000 values"),
        ("long.c3d", long_c3d, "processor 255"),
    ],
)
def test_a_file_made_to_exhaust_ends_soon_and_small(tmp_path: Path, name, make, message):
    path = tmp_path / name
    path.write_bytes(make())
    said = ask(path)
    assert "refused" in said
    assert message in said


def test_an_archive_of_many_members_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "many.npz", "w") as archive:
        for i in range(2000):
            archive.writestr(f"a{i}.npy", b"")
    assert "2000 arrays in one archive" in ask(tmp_path / "many.npz")


def ask(path: Path) -> str:
    """What a fresh process says, once it was quick (2 s) and small (200 MB) enough."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    seconds, megabytes, said = done.stdout.split(" ", 2)
    assert float(seconds) < 2.0
    assert float(megabytes) < 200.0
    return said
