"""Xsens MVNX: written here after the published schema, read to a millionth of a metre; nothing endless is parsed."""

from __future__ import annotations

import re
import resource
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from marey.base import FormatError, InputError, MareyError
from marey.io import clips, load
from marey.io.mvnx import TREE, read_mvnx
from marey.skeleton import role_map

NAMES = ("Pelvis", *TREE)
PARENTS = [-1, *(NAMES.index(TREE[name]) for name in NAMES[1:])]
# Bones [m] of a person of 1.75 m; x forward, y left, z up
BONES = {
    "L5": (0, 0, 0.09), "L3": (0, 0, 0.10), "T12": (0, 0, 0.09), "T8": (0, 0, 0.09), "Neck": (0, 0, 0.13),
    "Head": (0, 0, 0.09), "Shoulder": (0, 0.03, 0.08), "UpperArm": (0, 0.14, 0), "ForeArm": (0, 0.28, 0),
    "Hand": (0, 0.24, 0), "UpperLeg": (0, 0.085, 0), "LowerLeg": (0, 0, -0.43), "Foot": (0, 0, -0.42),
    "Toe": (0.17, 0, -0.08),
}  # fmt: skip


def bone(name: str):
    x, y, z = BONES[name.removeprefix("Right").removeprefix("Left")]
    return np.array([x, -y if name.startswith("Right") else y, z], dtype=np.float64)


@dataclass
class Take:
    """World frames of every segment in Xsens' axes."""

    quaternions: np.ndarray  # (F, S, 4) scalar first
    positions: np.ndarray  # (F, S, 3) [m]
    contacts: np.ndarray  # (F, 4)


def a_take(frames: int = 20, seed: int = 0) -> Take:
    rng = np.random.default_rng(seed)
    swing = rng.normal(size=(1, len(NAMES), 3)) * 0.4 * np.sin(np.linspace(0, 6, frames))[:, None, None]
    world, positions = [None] * len(NAMES), np.zeros((frames, len(NAMES), 3))
    for j, name in enumerate(NAMES):
        local = Rotation.from_rotvec(swing[:, j])
        if j == 0:
            world[0] = local
            positions[:, 0] = np.stack([np.linspace(0, 1, frames), np.zeros(frames), np.full(frames, 0.95)], axis=1)
            continue
        p = PARENTS[j]
        world[j] = world[p] * local
        positions[:, j] = positions[:, p] + world[p].apply(bone(name))
    quaternions = np.stack([w.as_quat(scalar_first=True) for w in world], axis=1)
    return Take(quaternions, positions, rng.random((frames, 4)) < 0.5)


def rest_positions():
    rest = np.zeros((len(NAMES), 3))
    rest[0] = (0, 0, 0.95)
    for j, name in enumerate(NAMES[1:], 1):
        rest[j] = rest[PARENTS[j]] + bone(name)
    return rest


def row(values) -> str:
    return " ".join(f"{v:.9g}" for v in np.asarray(values).reshape(-1))


def write_mvnx(
    path: Path, take: Take, *, version: int = 4, joints: bool = True, rate: str = 'frameRate="60"', extra: str = ""
) -> None:
    """After the schema: subject, segments with points, joints, contact definitions, rest poses, frames."""
    identity = row(np.tile([1.0, 0, 0, 0], (len(NAMES), 1)))
    out = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<mvnx xmlns="http://www.xsens.com/mvn/mvnx" version="{version}">',
        '<mvn version="2023.2" build="1"/><comment>a walk &amp; a turn</comment>',
        f'<subject label="Suit 1" {rate} segmentCount="23" recDate="today" originalFilename="walk.mvn">',
        "<segments>",
    ]
    for number, name in enumerate(NAMES, 1):
        ends = {
            "Head": ("pTopOfHead", "0 0 0.17"),
            "RightToe": ("pRightToe", "0.06 0 0"),
            "LeftToe": ("pLeftToe", "0.06 0 0"),
        }
        label, place = ends.get(name, (f"p{name}", "0 0 0"))
        points = f'<points><point label="{label}"><pos_b>{place}</pos_b></point></points>'
        out.append(f'<segment label="{name}" id="{number}">{points}</segment>')
    out.append('</segments><sensors><sensor label="Pelvis"/></sensors>')
    if joints:
        out.append("<joints>")
        out += [
            f'<joint label="j{name}"><connector1>{TREE[name]}/j{name}</connector1>'
            f"<connector2>{name}/j{name}</connector2></joint>"
            for name in NAMES[1:]
        ]
        out.append("</joints>")
    if version >= 4:
        labels = ("LeftFoot_Heel", "LeftFoot_Toe", "RightFoot_Heel", "RightFoot_Toe")
        definitions = "".join(f'<contactDefinition label="{label}" index="{i}"/>' for i, label in enumerate(labels))
        out.append(f"<footContactDefinition>{definitions}</footContactDefinition>")
    out.append('<frames segmentCount="23" sensorCount="17" jointCount="22">')
    for kind in ("identity", "tpose", "tpose-isb") if version >= 4 else ("npose", "tpose"):
        pose = f"<orientation>{identity}</orientation><position>{row(rest_positions())}</position>"
        out.append(f'<frame time="0" tc="" ms="0" type="{kind}">{pose}</frame>')
    for f in range(len(take.positions)):
        out.append(f'<frame time="{int(f * 1000 / 60)}" index="{f}" ms="1600000000000" type="normal">')
        out.append(
            f"<orientation>{row(take.quaternions[f])}</orientation><position>{row(take.positions[f])}</position>"
        )
        out.append(
            f"<velocity>{row(np.zeros(69))}</velocity><footContacts>{row(take.contacts[f].astype(int))}</footContacts>"
        )
        out.append(f"{extra}</frame>")
    out.append("</frames></subject></mvnx>")
    path.write_text("\n".join(out))


def to_ours(positions):
    """(x forward, y left, z up) to (x left, y up, z forward)."""
    return positions[..., [1, 2, 0]]


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("joints", [True, False])
def test_a_take_comes_back_to_a_millionth_of_a_metre(tmp_path, version, joints):
    take = a_take()
    write_mvnx(tmp_path / "a.mvnx", take, version=version, joints=joints)
    motion = load(tmp_path / "a.mvnx")
    assert motion.skeleton.names == NAMES
    assert motion.rate_hz == 60.0
    assert np.abs(motion.joint_positions() - to_ours(take.positions)).max() < 1e-6
    np.testing.assert_array_equal(motion.contacts.active, take.contacts)
    assert motion.contacts.names == ("left_heel", "left_toe", "right_heel", "right_toe")
    assert motion.translations is None


def test_the_person_rests_upright_and_looks_along_z(tmp_path):
    write_mvnx(tmp_path / "a.mvnx", a_take())
    skeleton = load(tmp_path / "a.mvnx").skeleton
    rest = skeleton.rest_positions()
    at = {name: rest[j] for j, name in enumerate(skeleton.names)}
    assert at["Head"][1] - at["LeftToe"][1] > 1.3
    assert at["LeftHand"][0] > 0.5 > -0.5 > at["RightHand"][0]
    assert at["LeftToe"][2] - at["LeftFoot"][2] == pytest.approx(0.17)
    np.testing.assert_allclose(skeleton.tips[skeleton.names.index("Head")], [0.0, 0.17, 0.0])
    np.testing.assert_allclose(skeleton.tips[skeleton.names.index("LeftToe")], [0.0, 0.0, 0.06])
    roles = role_map(skeleton)
    assert skeleton.names[roles.get("left_knee")] == "LeftLowerLeg"
    assert skeleton.names[roles.get("right_shoulder")] == "RightUpperArm"


def test_the_rate_may_come_from_the_times(tmp_path):
    write_mvnx(tmp_path / "a.mvnx", a_take(200), rate="")
    assert load(tmp_path / "a.mvnx").rate_hz == 60.0
    assert load(tmp_path / "a.mvnx", rate_hz=240).rate_hz == 240.0
    with pytest.raises(InputError, match="always in metres"):
        read_mvnx(tmp_path / "a.mvnx", unit="cm")


def test_frames_alone_have_the_usual_segments(tmp_path):
    take = a_take()
    write_mvnx(tmp_path / "a.mvnx", take)
    text = (tmp_path / "a.mvnx").read_text()
    inner = text[text.index("<frames") : text.index("</frames>")] + "</frames>"
    (tmp_path / "b.mvnx").write_text(inner)
    motion = load(tmp_path / "b.mvnx")
    assert motion.skeleton.names == NAMES
    assert np.abs(motion.joint_positions() - to_ours(take.positions)).max() < 1e-6


def test_fingers_are_left_out_with_a_note(tmp_path):
    write_mvnx(tmp_path / "a.mvnx", a_take(), extra="<orientationFingersLeft>1 0 0 0</orientationFingersLeft>")
    assert any("left out: fingers" in note for note in load(tmp_path / "a.mvnx").load_report.notes)


def test_bones_that_stretch_are_kept(tmp_path):
    take = a_take()
    take.positions[5:, 4] += 0.02
    write_mvnx(tmp_path / "a.mvnx", take)
    motion = load(tmp_path / "a.mvnx")
    assert np.abs(motion.joint_positions() - to_ours(take.positions)).max() < 1e-6
    assert any("bones change" in warning for warning in motion.load_report.warnings)


def test_other_encodings_are_read(tmp_path):
    take = a_take(3)
    write_mvnx(tmp_path / "a.mvnx", take)
    text = (tmp_path / "a.mvnx").read_text().replace('encoding="UTF-8"', 'encoding="UTF-16"')
    (tmp_path / "b.mvnx").write_text(text, encoding="utf-16")
    assert load(tmp_path / "b.mvnx").num_frames == 3


def changed(tmp_path, old: str, new: str, count: int = 1) -> Path:
    write_mvnx(tmp_path / "a.mvnx", a_take(4))
    text = (tmp_path / "a.mvnx").read_text()
    assert old in text
    (tmp_path / "a.mvnx").write_text(text.replace(old, new, count))
    return tmp_path / "a.mvnx"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<mvn ", "<!-- --><mvn ", ""),
        ('<mvnx xmlns="http://www.xsens.com/mvn/mvnx" version="4">', "<svg>", r":2: the file starts with <svg>"),
        ("<orientation>1 0 0 0", "<orientation>1 0 0", r"<orientation> has 91 numbers, expected 92"),
        ("<orientation>1 0 0 0", "<orientation>1 0 0 a", "something that is no number"),
        ("<orientation>1 0 0 0", "<orientation>1 0 0 nan", "not finite"),
        ("<position>", "<pozition>", "not valid XML: mismatched tag"),
        ("</frames>", "", "not valid XML"),
        ('label="L5"', 'label="L3"', "two segments have the same name"),
        ("<connector1>Pelvis/jL5", "<connector1>Nobody/jL5", "do not hang on the others"),
        ("<connector1>Pelvis/jL5", "<connector1>T8/jL5", "the segments L5, L3, T12, T8 do not hang on the others"),
        ('frameRate="60"', 'frameRate="0"', ""),
        ("&amp;", "&bomb;", "undefined entity"),
        ('encoding="UTF-8"', 'encoding="EBCDIC-X"', "not valid XML"),
    ],
)
def test_a_damaged_file_names_its_line_and_its_fault(tmp_path, old, new, message):
    path = changed(tmp_path, old, new)
    if not message:
        load(path)
        return
    with pytest.raises(FormatError, match=message) as said:
        load(path)
    assert len(str(said.value)) < 400


def test_entities_and_document_types_are_refused(tmp_path):
    lines = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 30))
    bomb = f'<?xml version="1.0"?><!DOCTYPE mvnx [<!ENTITY a0 "ha">{lines}]><mvnx><comment>&a29;</comment></mvnx>'
    (tmp_path / "a.mvnx").write_text(bomb)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "b.mvnx").write_text(f'<!DOCTYPE m [<!ENTITY x SYSTEM "file://{tmp_path}/secret">]><mvnx>&x;</mvnx>')
    (tmp_path / "c.mvnx").write_text('<!DOCTYPE mvnx SYSTEM "http://localhost/x.dtd"><mvnx/>')
    for name in "abc":
        with pytest.raises(FormatError, match="a document type"):
            load(tmp_path / f"{name}.mvnx")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"<mvnx/>", "no segments"),
        (b"<mvnx><subject><segments><segment label='Pelvis'/></segments></subject></mvnx>", "no captured frame"),
        (b"<mvnx>" + b"<a>" * 100_000, "nested more than 32 deep"),
        (b"<mvnx><subject><segments>" + b"<segment label='x'/>" * 100_000, "more than 1000 segments"),
        (b"<mvnx><subject a='" + b"x" * 20_000_000, "one tag of more than|not valid XML"),
        (
            b"<mvnx><subject><segments><segment label='a'/></segments><frames><frame><position>" + b"1 " * 9_000_000,
            "MB",
        ),
    ],
)
def test_what_is_too_large_or_too_small_ends_soon(tmp_path, content, message):
    (tmp_path / "a.mvnx").write_bytes(content)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(FormatError, match=message):
        load(tmp_path / "a.mvnx")
    assert time.process_time() - start < 2.0
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < 200_000_000


@pytest.mark.timing
def test_ten_megabytes_take_less_than_five_seconds(tmp_path):
    write_mvnx(tmp_path / "a.mvnx", a_take(4500))
    assert (tmp_path / "a.mvnx").stat().st_size > 9_000_000
    start = time.process_time()
    assert load(tmp_path / "a.mvnx").num_frames == 4500
    assert time.process_time() - start < 5.0


WORDS = [
    (b"segment ", b"segmemt "), (b'label="L', b'label="R'), (b"0.", b"1e9."), (b"1", b"nan"), (b"0", b"1e400"),
    (b"normal", b"tpose"), (b"tpose", b"normal"), (b"Pelvis/", b"Head/"), (b"60", b"-1"), (b"position", b"pos"),
    (b"<subject", b"<subject/><subject"), (b"frame ", b"frames "), (b"0 0 0", b"0 0"), (b"1 0 0 0", b"0 0 0 0"),
]  # fmt: skip


def damage(data: bytes, rng: np.random.Generator) -> bytes:
    content = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        at, kind = int(rng.integers(len(content))), int(rng.integers(7))
        if kind <= 1:
            content[at] = int(rng.choice([0, 0x20, 0x22, 0x3C, 0x3E, 0x80, 0xFF, int(rng.integers(256))]))
        elif kind == 2:
            del content[at : at + int(rng.integers(1, 80))]
        elif kind == 3:
            content[at:at] = content[at : at + int(rng.integers(1, 400))]
        elif kind == 4 and rng.random() < 0.2:
            del content[at:]
        else:
            # A word of the schema or a number becomes another one: the XML stays valid
            old, new = WORDS[int(rng.integers(len(WORDS)))]
            spot = content.find(old, at)
            if spot >= 0:
                content[spot : spot + len(old)] = new
    return bytes(content)


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_damaged_files_end_well(tmp_path, count):
    rng, path = np.random.default_rng(2026), tmp_path / "damaged.mvnx"
    write_mvnx(path, a_take(3))
    data = path.read_bytes()
    load(path).joint_positions()
    before, slowest, read, said = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0.0, 0, list[str]()
    for _ in range(count):
        path.write_bytes(damage(data, rng))
        start = time.process_time()
        try:
            assert np.isfinite(load(path).joint_positions()).all()
            read += 1
        except MareyError as error:
            said.append(str(error))
        slowest = max(slowest, time.process_time() - start)
    assert slowest < 2.0
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < 200_000_000
    assert 0 < read < count
    assert all(path.name in text and len(text) < 1000 for text in said)


def test_subjects_of_one_session_are_clips(tmp_path):
    """MVN writes all suits of a session into one file, each with its own segments and frames."""
    one, two = tmp_path / "one.mvnx", tmp_path / "two.mvnx"
    write_mvnx(one, a_take(12, seed=1))
    write_mvnx(two, a_take(15, seed=2))
    head, first = one.read_text().split("<subject ", 1)
    second = two.read_text().split("<subject ", 1)[1].replace('label="Suit 1"', 'label="Suit 2"', 1)
    both = tmp_path / "session.mvnx"
    both.write_text(f"{head}<subject {first.removesuffix('</mvnx>')}<subject {second}")
    assert clips(both) == ("Suit 1", "Suit 2")
    assert load(both).num_frames == 12
    assert any("'Suit 2'" in warning for warning in load(both).load_report.warnings)
    other = load(both, clip="Suit 2")
    assert other.num_frames == 15
    assert np.abs(other.joint_positions() - load(two).joint_positions()).max() < 1e-12


def change(path, *pairs: tuple[str, str]):
    text = path.read_text()
    for old, new in pairs:
        assert re.search(old, text, flags=re.DOTALL), old
        text = re.sub(old, new, text, flags=re.DOTALL)
    path.write_text(text)
    return path


VARIANTS = {
    "prefix of a namespace": [("<(/?)(?=[a-z])", r"<\1mvn:"), ("xmlns=", "xmlns:mvn=")],
    "no sensors": [("<sensors>.*</sensors>", "")],
    "frames without a type": [(' type="normal"', "")],
    "no rest pose but that of the ISB": [('<frame time="0" tc="" ms="0" type="(identity|tpose)">.*?</frame>', "")],
    "clock of the frames alone": [('frameRate="60" ', "")],
    "comments between frames": [("(<frame )", r"<!-- lost -->\n\1")],
    "sensor data beside the segments": [
        ("</frame>", "<sensorFreeAcceleration></sensorFreeAcceleration><jointAngle>0 0 0</jointAngle></frame>")
    ],
    "a security code and meta data": [("<subject ", '<securityCode code="ab12"/><subject torsoColor="#00ff00" ')],
    "indented": [("><", ">\n   <")],
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_files_as_exporters_write_them(tmp_path, variant):
    plain, other = tmp_path / "plain.mvnx", tmp_path / "other.mvnx"
    write_mvnx(plain, a_take())
    write_mvnx(other, a_take())
    changed = load(change(other, *VARIANTS[variant]))
    assert changed.rate_hz == pytest.approx(60.0, rel=2e-3)
    assert np.abs(changed.joint_positions() - load(plain).joint_positions()).max() < 1e-6


def test_a_file_in_utf_16_is_read(tmp_path):
    path = tmp_path / "take.mvnx"
    write_mvnx(path, a_take())
    expected = load(path).joint_positions()
    path.write_bytes(path.read_text().replace("UTF-8", "UTF-16").encode("utf-16"))
    np.testing.assert_array_equal(load(path).joint_positions(), expected)


def test_orientations_alone_stand_on_the_bones_of_the_t_pose(tmp_path):
    plain, path = tmp_path / "plain.mvnx", tmp_path / "take.mvnx"
    write_mvnx(plain, a_take())
    write_mvnx(path, a_take())
    places = (r'(type="normal">\s*<orientation>[^<]*</orientation>)<position>[^<]*</position>', r"\1")
    motion = load(change(path, places))
    assert any("orientations without positions" in warning for warning in motion.load_report.warnings)
    whole = load(plain).joint_positions()
    here = motion.joint_positions()
    assert np.abs((here - here[:, :1]) - (whole - whole[:, :1])).max() < 1e-6
    assert np.ptp(motion.root_positions, axis=0).max() == 0.0
