"""Damaged, cut, foreign and hostile data end in an error of ours, before anything large is made."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marey.base import FormatError, InputError, MareyError
from marey.compression import compress, decompress
from marey.compression.file_format import FORMAT_VERSION, HEADER, FieldReader, FieldWriter, pack_file, unpack_file

METHODS = ("default", "waves", "tournier2011")


@pytest.fixture(scope="module")
def files(chain):
    return {
        "default": compress(chain, max_error_m=1e-2),
        "waves": compress(chain, distortion_percent=5.0),
        "tournier2011": compress(chain, method="tournier2011", max_error_m=0.1),
    }


@pytest.mark.parametrize("method", METHODS)
def test_tournier_39_any_changed_byte_is_noticed(files, method):
    data = bytearray(files[method])
    for place in range(0, len(data), max(1, len(data) // 60)):
        data[place] ^= 0x40
        with pytest.raises(FormatError):
            decompress(bytes(data))
        data[place] ^= 0x40


@pytest.mark.parametrize("method", METHODS)
def test_tournier_39_a_cut_file_is_refused(files, method):
    data = files[method]
    for length in (0, 3, HEADER.size - 1, HEADER.size, len(data) // 2, len(data) - 1):
        with pytest.raises(FormatError):
            decompress(data[:length])
    with pytest.raises(FormatError):
        decompress(data + b"\0")


def test_another_version_says_upgrade(files):
    data = bytearray(files["default"])
    data[4] = FORMAT_VERSION + 1
    with pytest.raises(FormatError, match="Upgrade"):
        decompress(bytes(data))


def test_other_files_are_refused():
    for data in (b"", b"HIERARCHY\nROOT Hips\n", b"glTF" + bytes(60), bytes(100)):
        with pytest.raises(FormatError):
            decompress(data)
    with pytest.raises(InputError, match="str"):
        decompress("walk.marey")  # pyright: ignore[reportArgumentType] (that is the point)


@pytest.mark.parametrize("method", METHODS)
def test_data_with_a_right_checksum_and_wrong_contents_end_in_an_error_or_a_motion(files, method):
    number, body = unpack_file(files[method])
    rng = np.random.default_rng(4)
    for _ in range(30 if method == "tournier2011" else 120):
        changed = bytearray(body)
        for place in rng.integers(0, min(len(body), 500), size=3):
            changed[place] = rng.integers(256)
        try:
            back = decompress(pack_file(number, bytes(changed)))
        except MareyError:
            continue
        assert np.isfinite(back.joint_positions()).all()


@given(st.binary(max_size=200), st.integers(0, 2))
@settings(max_examples=60)
def test_noise_with_a_right_checksum_is_refused(body, method):
    with pytest.raises(MareyError):
        decompress(pack_file(method, body))


@pytest.mark.parametrize("method", METHODS)
def test_huge_counts_are_refused_before_room_is_made(files, chain, method):
    number, body = unpack_file(files[method])
    needle = _varint(chain.num_frames) + struct.pack("<d", chain.rate_hz)
    for count in (2**24, 2**24 + 1, 2**60):
        assert body.count(needle) == 1
        hostile = body.replace(needle, _varint(count) + struct.pack("<d", chain.rate_hz))
        with pytest.raises(FormatError):
            decompress(pack_file(number, hostile))


def test_a_packed_field_cannot_grow_without_bound():
    bomb = zlib.compress(bytes(1 << 20))[2:-4]
    for announced in (10, 1 << 40):
        out = FieldWriter()
        out.whole(announced)
        out.raw(bomb)
        with pytest.raises(FormatError):
            FieldReader(bytes(out.data)).inflate_bytes()


def test_fields_come_back():
    out = FieldWriter()
    values = np.array([0, -1, 1, 2**40, -(2**62), 77])
    reals = np.array([1e-300, -np.pi, 0.0])
    for value in (0, 127, 128, 2**50):
        out.whole(value)
    out.ints(values)
    out.ints(values[:0])
    out.doubles(reals)
    out.text("smörgås\n")
    fields = FieldReader(bytes(out.data))
    assert [fields.whole() for _ in range(4)] == [0, 127, 128, 2**50]
    assert np.array_equal(fields.ints(), values) and len(fields.ints(0)) == 0
    assert np.array_equal(fields.doubles(3), reals)
    assert fields.text() == "smörgås\n"
    fields.end()


def test_reading_past_the_end_or_stopping_short_is_noticed():
    fields = FieldReader(b"\x05ab")
    with pytest.raises(FormatError, match="cut off"):
        fields.raw()
    with pytest.raises(FormatError, match="too many"):
        FieldReader(b"a").end()
    with pytest.raises(FormatError):
        FieldReader(b"\xff\xff").whole()
    with pytest.raises(FormatError, match="limit"):
        FieldReader(b"\x7f").whole(3)


def _varint(value: int) -> bytes:
    out = FieldWriter()
    out.whole(value)
    return bytes(out.data)
