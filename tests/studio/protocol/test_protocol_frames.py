"""Frames and the generated types: both sides read the same bytes, and nothing else is read at all."""

from __future__ import annotations

import random
import runpy
import struct
import subprocess
from pathlib import Path

import msgspec
import numpy as np
import pytest

from marey.base import InputError
from marey.studio.commands import COMMANDS
from marey.studio.protocol import (
    VERSION,
    AnswerMessage,
    BlockMessage,
    ClientMessage,
    DragMessage,
    ServerMessage,
    WantMessage,
    decode_frame,
    encode_frame,
)

from ..frames import read_frame, write_frame

WEB = Path(__file__).parents[3] / "web"


def test_the_types_of_the_page_name_every_message_and_command_of_the_server() -> None:
    text = runpy.run_path(str(WEB / "generate_messages.py"))["generate"]()
    for kind in (*ClientMessage.__subclasses__(), *ServerMessage.__subclasses__()):
        assert f'export interface {kind.__name__} {{ t: "{kind.__struct_config__.tag}"' in text
    commands = text.split("export interface Commands {")[1]
    assert [name for name in COMMANDS if f"  {name}: {{" not in commands] == []


def test_the_page_speaks_the_version_of_the_server() -> None:
    session = (WEB / "src" / "project" / "session.ts").read_text(encoding="utf-8")
    assert f"const VERSION: ProtocolVersion = {VERSION};" in session


def test_a_message_the_page_does_not_know_fails_its_build(tmp_path: Path) -> None:
    compiler = WEB / "node_modules" / ".bin" / "tsc"
    if not compiler.exists():
        pytest.skip("the client's packages are not installed: make web")
    text = runpy.run_path(str(WEB / "generate_messages.py"))["generate"]()
    page = f"""import type {{ ProtocolVersion, WantMessage }} from "./messages";
export const version: ProtocolVersion = {VERSION};
export const want: WantMessage = {{ t: "want", hash: "a" }};
"""
    codes = []
    for types in (text, text.replace('t: "want"', 't: "need"'), text.replace("Version = ", "Version = 1")):
        (tmp_path / "messages.ts").write_text(types, encoding="utf-8")
        (tmp_path / "page.ts").write_text(page, encoding="utf-8")
        codes.append(subprocess.run([compiler, "--noEmit", "--strict", "page.ts"], cwd=tmp_path).returncode)
    assert codes[0] == 0
    assert 0 not in codes[1:]


def test_arrays_ride_aligned_behind_the_header() -> None:
    rng = np.random.default_rng(0)
    message = AnswerMessage(
        "x", {"n": np.float64(1.5), "deep": [{"a": rng.random((3, 5))}]},
        {"i": np.arange(7), "b": np.array([True, False, True]), "e": np.zeros((0, 3))},
    )  # fmt: skip
    data = encode_frame(message)
    (length,) = struct.unpack_from("<I", data)
    start = -(-(4 + length) // 8) * 8
    plain = msgspec.msgpack.decode(data[4 : 4 + length])
    places = [plain["value"]["deep"][0]["a"]["$"], *(part["$"] for part in plain["arrays"].values())]
    assert all((start + first) % 8 == 0 for first, _, _ in places)
    assert [kind for _, kind, _ in places] == ["f4", "i4", "u1", "f4"]
    found = read_frame(data)
    np.testing.assert_array_equal(found["value"]["deep"][0]["a"], message.value["deep"][0]["a"].astype("f4"))
    np.testing.assert_array_equal(found["arrays"]["i"], np.arange(7))
    assert found["arrays"]["b"].tolist() == [1, 0, 1] and found["arrays"]["e"].shape == (0, 3)
    assert found["value"]["n"] == 1.5


def test_a_block_of_1024_frames_has_the_size_of_its_numbers() -> None:
    data = encode_frame(BlockMessage("h", 0, np.zeros((1024, 3)), np.zeros((1024, 22, 4))))
    assert 0 < len(data) - 4 * 1024 * (3 + 88) < 200


def test_a_message_of_the_page_is_read_back() -> None:
    drag = {"t": "drag", "channel": "c", "n": 3, "phase": "move", "tool": "pose", "args": {"target": [0.1, 1, 2]}}
    assert decode_frame(write_frame(drag)) == DragMessage("c", "move", "pose", {"target": [0.1, 1, 2]}, 3)
    assert decode_frame(write_frame({"t": "want", "hash": "h"})) == WantMessage("h")


VALID = [
    {"t": "hello", "version": 1},
    {"t": "command", "id": "a", "name": "rename", "args": {}},
    {"t": "drag", "channel": "c", "n": 1, "phase": "move", "tool": "pose", "args": {"x": [1.0, {}]}},
    {"t": "want", "hash": "0" * 64, "first": 0, "count": 9},
]


def damage(rng: random.Random) -> bytes:
    """Return bytes that look like a message, or like nothing."""
    kind = rng.randrange(6)
    if kind == 0:
        return rng.randbytes(rng.randrange(64))
    if kind == 1:
        return struct.pack("<I", rng.randrange(2**32)) + rng.randbytes(rng.randrange(64))
    header = dict(rng.choice(VALID))
    if kind == 2:
        header[rng.choice(["t", "id", "n", "args", "phase", "x", "count"])] = rng.choice(
            [None, -1, 2**63, "\0", [[]], 1e308]
        )
    elif kind == 3:
        del header[rng.choice(list(header))]
    elif kind == 4:
        header["args"] = msgspec.Raw(b"\x91" * rng.randrange(5000) + b"\xc0")  # lists in lists
    data = bytearray(write_frame(header))
    if kind == 5:
        for _ in range(rng.randrange(1, 5)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data)


def test_10_000_damaged_messages_are_read_or_refused_in_words() -> None:
    rng = random.Random(5)
    refused = 0
    for _ in range(10_000):
        try:
            decode_frame(damage(rng))
        except InputError:
            refused += 1
    assert refused > 5000


@pytest.mark.parametrize("size", [0, 3, (8 << 20) + 1])
def test_a_message_of_no_possible_size_is_refused(size) -> None:
    with pytest.raises(InputError):
        decode_frame(bytes(size))
