"""Contacts of captured clips: against labels made by eye and against a force plate."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest

from marey.contacts import contact_phases, detect_contacts, feet_down
from marey.contacts.detection.hysteresis import detect_still_and_low
from marey.contacts.detection.points import PointTracks, differentiate, smooth_values, vertical_accelerations
from marey.io import load, load_markers
from marey.motion import Motion, find_runs, mirror
from marey.skeleton import foot_points

LABELS = Path(__file__).parent / "labels" / "contacts.csv"
TWO_FRAMES_S = 2.0 / 30.0
SAME_BOUNDARY_S = 0.2  # a boundary this near to a label is that boundary, badly timed; others are not in the labels
AT_60_HZ = {"75", "87", "88", "89", "141", "143"}  # subjects whose files say 120 Hz

pytestmark = pytest.mark.mocap


@dataclass
class Labels:
    """What was labelled in one clip: times [s] of landings (True) and leavings (False) by foot."""

    from_s: float
    to_s: float
    of: str
    times: dict[str, list[tuple[float, bool]]] = field(default_factory=lambda: {"left": [], "right": []})


@cache
def labels() -> dict[str, Labels]:
    clips: dict[str, Labels] = {}
    with LABELS.open() as file:
        for row in csv.DictReader(file):
            clip = clips.setdefault(row["clip"], Labels(float(row["from_s"]), float(row["to_s"]), row["set"]))
            clip.times[row["foot"]] += [(float(row[key]), key == "down_s") for key in ("down_s", "up_s") if row[key]]
    return clips


def captured(mocap: Path, clip: str) -> Motion:
    return load(mocap / "cmu-bvh" / f"{clip}.bvh", rate_hz=60.0 if clip.split("_")[0] in AT_60_HZ else 120.0)


def score(motion: Motion, label: Labels, method: str) -> tuple[int, int, int]:
    """Boundaries found within two frames, boundaries labelled, boundaries found that nobody labelled."""
    hits = total = extra = 0
    for foot, down in zip(("left", "right"), feet_down(detect_contacts(motion, method=method)).T, strict=True):
        at = [((int(i) + 0.5) / motion.rate_hz, bool(down[i + 1])) for i in np.flatnonzero(np.diff(down.astype(int)))]
        free = [b for b in at if label.from_s <= b[0] <= label.to_s]
        for t, on in sorted(label.times[foot]):
            near = min((b for b in free if b[1] == on), key=lambda b: abs(b[0] - t), default=None)
            total += 1
            if near is not None and abs(near[0] - t) < SAME_BOUNDARY_S:
                hits += abs(near[0] - t) <= TWO_FRAMES_S + 1e-9
                free.remove(near)
        extra += len(free)
    return hits, total, extra


def totals(mocap: Path, *sets: str, method: str = "hysteresis") -> tuple[int, int, int]:
    scores = [score(captured(mocap, clip), found, method) for clip, found in labels().items() if found.of in sets]
    hits, total, extra = np.sum(scores, axis=0)
    return int(hits), int(total), int(extra)


def test_labels_cover_20_clips_and_more() -> None:
    assert len([clip for clip in labels().values() if clip.of in ("tuning", "hold-out")]) == 20
    assert sum(len(times) for clip in labels().values() for times in clip.times.values()) == 203


def test_safonova_a3_95_percent_of_boundaries_are_within_two_frames(mocap: Path) -> None:
    hits, total, extra = totals(mocap, "tuning", "hold-out")
    assert total == 168
    assert hits - extra >= 0.95 * total


def test_safonova_a3_holds_on_clips_labelled_after_the_detector_was_frozen(mocap: Path) -> None:
    hits, total, extra = totals(mocap, "check")
    assert total == 35
    assert hits - extra >= 0.95 * total


def test_safonova_a3_no_phase_is_shorter_than_two_frames(mocap: Path) -> None:
    for clip in labels():
        motion = captured(mocap, clip)
        assert min(len(phase) for phase in contact_phases(motion)) >= TWO_FRAMES_S * motion.rate_hz - 1e-9


def test_the_default_beats_the_plain_thresholds(mocap: Path) -> None:
    hits, total, extra = totals(mocap, "tuning", "hold-out", "check")
    plain_hits, _, plain_extra = totals(mocap, "tuning", "hold-out", "check", method="threshold")
    assert hits - extra > 0.95 * total > plain_hits - plain_extra


def test_glardon_a25_adaptive_boundaries_of_steady_gait_are_within_two_frames(mocap: Path) -> None:
    scores = [
        score(captured(mocap, clip), labels()[clip], "adaptive") for clip in ("16_35", "35_29", "39_01", "127_08")
    ]
    hits, total, _ = np.sum(scores, axis=0)
    assert hits >= 0.95 * total


def test_stairs_are_plants_at_rising_heights(mocap: Path) -> None:
    plants = {id(p): p for phase in contact_phases(captured(mocap, "83_27")) for p in phase.plants}
    heights = [p.position[1] for p in plants.values()]
    assert len(heights) == 10
    np.testing.assert_allclose(np.diff(heights[-4:]), [0.11, 0.12, 0.0], atol=0.02)
    assert np.ptp(heights[:-4]) < 0.02


@pytest.mark.parametrize("clip", ["88_07", "90_02"])
def test_both_hands_carry_a_cartwheel(mocap: Path, clip: str) -> None:
    motion = captured(mocap, clip)
    contacts = detect_contacts(motion)
    for hand in ("left_hand", "right_hand"):
        ((start, stop),) = find_runs(contacts.track(hand))
        assert 0.3 < (stop - start) / motion.rate_hz < 0.7
    assert "hands" in {phase.kind for phase in contact_phases(motion)}


@pytest.mark.parametrize("clip", ["69_70", "69_75", "26_09", "115_01", "16_17"])
def test_hands_that_reach_for_a_thing_or_swing_are_not_planted(mocap: Path, clip: str) -> None:
    contacts = detect_contacts(captured(mocap, clip))
    assert not contacts.track("left_hand").any()
    assert not contacts.track("right_hand").any()


def test_getting_up_from_the_floor_starts_on_both_hands(mocap: Path) -> None:
    contacts = detect_contacts(captured(mocap, "140_01"))
    assert contacts.track("left_hand")[:100].all() and contacts.track("right_hand")[:100].all()
    assert not contacts.track("left_hand")[-200:].any() and not contacts.track("right_hand")[-200:].any()


@pytest.mark.parametrize("clip", ["127_31", "141_03"])  # a run in a crouch, a run read at twice its rate
def test_no_swing_is_a_contact(mocap: Path, clip: str) -> None:
    motion = load(mocap / "cmu-bvh" / f"{clip}.bvh")
    contacts = detect_contacts(motion)
    points = foot_points(motion.skeleton)
    at = points.positions(*motion.joint_frames())[..., [0, 2]]
    for side in ("left", "right"):
        foot = at[:, [points.index(f"{side}_{part}") for part in ("heel", "ball", "toe_end")]]
        for start, stop in find_runs(contacts.track(f"{side}_heel") | contacts.track(f"{side}_toe"), 0):
            way = np.linalg.norm(foot[start:stop] - np.median(foot[start:stop], axis=0), axis=-1).min(axis=1)
            assert way.max() < 0.35, (side, start, stop)  # a step of these clips is over 1 m


@pytest.mark.parametrize("clip", ["91_39", "91_47", "91_54", "91_55"])
def test_a_foot_that_has_left_in_a_jump_is_not_planted(mocap: Path, clip: str) -> None:
    # Raw heights: in the last frame of a contact the lowest point of the sole is still where it stood before
    motion = captured(mocap, clip)
    points = foot_points(motion.skeleton)
    at = points.positions(*motion.joint_frames())[..., 1]
    for foot, down in zip(("left", "right"), feet_down(detect_contacts(motion)).T, strict=True):
        sole = at[:, [points.index(f"{foot}_{part}") for part in ("heel", "ball", "toe_end")]].min(axis=1)
        for start, stop in find_runs(down, 0):
            if stop < len(down):
                assert sole[stop - 1] - sole[max(start, stop - 13) : stop].min() < 0.045


def test_a_landing_with_broken_knees_stays_a_landing(mocap: Path) -> None:
    motion = captured(mocap, "83_50")  # the feet seem to sink 0.19 m after the landing
    kinds = [phase.kind for phase in contact_phases(motion)]
    assert kinds.count("flight") == 1
    flight = next(phase for phase in contact_phases(motion) if phase.kind == "flight")
    assert flight.fall_mps2 is not None and abs(flight.fall_mps2 + 9.81) < 2.5


def test_walks_have_double_support_and_no_flight(mocap: Path) -> None:
    for clip in ("07_01", "08_01", "16_47", "35_14", "39_09", "69_01", "132_20"):
        kinds = [phase.kind for phase in contact_phases(captured(mocap, clip))]
        assert "flight" not in kinds and "unsupported" not in kinds
        singles = sum(kind in ("left", "right") for kind in kinds)
        assert abs(kinds.count("double") - singles) <= 1


def test_runs_have_flights_and_no_double_support(mocap: Path) -> None:
    for clip in ("09_01", "09_06", "16_35", "35_17", "127_06"):
        kinds = [phase.kind for phase in contact_phases(captured(mocap, clip))]
        assert kinds.count("flight") >= 3 and "double" not in kinds


def test_half_the_frame_rate_gives_the_same_contacts(mocap: Path) -> None:
    for clip in ("16_17", "118_17", "35_29", "69_68"):
        motion = captured(mocap, clip)
        whole, half = feet_down(detect_contacts(motion)), feet_down(detect_contacts(motion[::2]))
        assert (whole[::2] == half).mean() > 0.98


def test_mirrored_capture_has_mirrored_feet(mocap: Path) -> None:
    motion = captured(mocap, "16_17")
    feet, swapped = feet_down(detect_contacts(motion)), feet_down(detect_contacts(mirror(motion)))
    assert (feet == swapped[:, ::-1]).mean() > 0.995  # the two legs of the captured skeleton differ by millimetres


@pytest.mark.timing
def test_a_thousand_frames_take_a_few_milliseconds(mocap: Path) -> None:
    motion = captured(mocap, "69_71")[:1000]
    detect_contacts(motion)  # compiles
    times = []
    for _ in range(5):
        start = perf_counter()
        detect_contacts(motion)
        times.append(perf_counter() - start)
    assert min(times) < 0.05  # 8 ms measured on a busy machine; a slower one gets room


def plate_tracks(mocap: Path) -> tuple[PointTracks, np.ndarray]:
    """Heels, fifth metatarsals and toes of a walk over force plates, and the vertical forces at the marker frames."""
    markers = load_markers(mocap / "opensim" / "markers_walk.trc")
    column = {name: k for k, name in enumerate(markers.names)}
    parts = {"heel": "Heel", "ball": "MT5", "toe_end": "Toe"}
    names = [
        (f"{side}_{part}", f"{side[0].upper()}.{marker}")
        for side in ("left", "right")
        for part, marker in parts.items()
    ]
    rate = markers.rate_hz
    points = smooth_values(np.stack([markers.positions[:, column[marker]] for _, marker in names], axis=1), rate)
    sacrum = smooth_values(markers.positions[:, column["S2"]], rate)
    tracks = PointTracks(
        tuple(name for name, _ in names),
        rate,
        points,
        np.linalg.norm(differentiate(points, rate), axis=-1),
        sacrum[:, 1],
        np.linalg.norm(differentiate(sacrum, rate), axis=-1),
        sacrum,
        vertical_accelerations(sacrum, rate),
        1.0,
    )
    force = np.loadtxt(mocap / "opensim" / "grf_walk.mot", skiprows=7)
    times = np.arange(len(points)) / rate
    return tracks, np.stack([np.interp(times, force[:, 0], force[:, c]) for c in (11, 2)], axis=1)


def test_contacts_of_a_walk_agree_with_a_force_plate(mocap: Path) -> None:
    tracks, forces = plate_tracks(mocap)
    planted = detect_still_and_low(tracks)
    checked = 0
    for s, side in enumerate(("left", "right")):
        down = planted[:, tracks.columns(side)].any(axis=1)
        for start, stop in find_runs(forces[:, s] > 20.0):  # [N] the usual threshold of gait laboratories
            if start > 0 and stop < len(down):
                ((first, last),) = [r for r in find_runs(down) if r[0] < (start + stop) // 2 < r[1]]
                assert abs(first - start) / tracks.rate_hz <= 0.03
                assert abs(last - stop) / tracks.rate_hz <= 0.03
                checked += 1
    assert checked == 3


@pytest.mark.parametrize("trial", ["02/02_03.amc", "35/35_14.amc"])
def test_both_files_of_a_trial_have_the_same_contacts(mocap: Path, trial: str) -> None:
    amc = load(mocap / "cmu-asfamc" / trial, rate_hz=120.0)
    bvh = captured(mocap, Path(trial).stem)
    np.testing.assert_array_equal(feet_down(detect_contacts(amc)), feet_down(detect_contacts(bvh)))
