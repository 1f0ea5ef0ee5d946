"""The motion store: looked up, refined within a quota, never worse ([Fang2003]_ F29, A51)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from marey.base import FormatError, InputError, MissingFileError
from marey.spacetime import MotionStore, SpacetimeProblem, StoreEntry
from marey.spacetime.motion_store import StoreKey, motion_from_entry, read_entry, retime_entry, write_entry
from marey.spacetime.problem.definition import Contact, Key, Objective, ProblemPhase


def hop(flight_s: float = 0.3, reach_m: float = 0.5, name: str = "hop") -> SpacetimeProblem:
    """A planar leap, the smallest that has a flight."""
    take_off = Contact("feet", (0.0, 0.0, 0.0), friction=1.0)
    landing = Contact("feet", (0.0, 0.0, reach_m), friction=1.0)
    phases = (
        ProblemPhase("push", 0.35, (take_off,)),
        ProblemPhase("flight", flight_s),
        ProblemPhase("land", 0.35, (landing,)),
    )
    calm = Objective(accel=1.0, prior=0.5)
    return SpacetimeProblem(name, phases, character="fang7", objective=calm, guess="crouch", max_iterations=60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def answers(folder: Path):
    store = MotionStore(folder)
    quotas = [0.1] * 9 + [30.0]  # moments, as long as they may last on a busy machine; then enough for the rest
    return [store.request(hop(), quota_s=quota_s) for quota_s in quotas]


def test_a51_ten_requests_never_raise_the_stored_violation(answers) -> None:
    violations = [answer.entry.violation for answer in answers]
    assert all(after <= before for before, after in pairwise(violations))
    assert violations[-1] < 1e-4


def test_versions_count_improvements(answers) -> None:
    versions = [answer.entry.version for answer in answers]
    improved = [answer.is_improved for answer in answers]
    assert versions == list(np.cumsum(improved))
    assert improved[0]


def test_the_first_request_starts_cold_and_the_next_from_the_store(answers) -> None:
    assert answers[0].distance == np.inf
    assert all(answer.distance == 0.0 for answer in answers[1:])


def test_a_stored_motion_is_the_one_handed_out(answers, folder: Path) -> None:
    entry = MotionStore(folder).entry(hop())
    assert entry is not None
    assert np.array_equal(motion_from_entry(entry).root_positions, answers[-1].motion.root_positions)
    assert entry.violation == answers[-1].entry.violation


def test_the_name_of_a_request_does_not_matter(answers, folder: Path) -> None:
    entry = MotionStore(folder).entry(hop(name="another name"))
    assert entry is not None
    assert entry.violation == answers[-1].entry.violation


def test_no_quota_only_looks_up(answers, folder: Path) -> None:
    found = MotionStore(folder).request(hop(flight_s=0.32), quota_s=0.0)
    assert found.result is None
    assert not found.is_improved
    assert 0.0 < found.distance < np.inf
    assert len(MotionStore(folder)) == 1


def test_a_near_request_starts_at_the_nearest_entry_and_gets_its_own(answers, tmp_path: Path) -> None:
    store = MotionStore(tmp_path)
    write_entry(answers[-1].entry, store._path(hop()))
    cold = MotionStore(tmp_path / "empty").request(hop(reach_m=0.55), quota_s=10.0)
    warm = store.request(hop(reach_m=0.55), quota_s=10.0)
    assert warm.result is not None
    assert cold.result is not None
    assert warm.entry.violation < 1e-4
    assert warm.result.iterations <= cold.result.iterations
    assert len(store) == 2


def test_a_worse_motion_is_not_written_back(answers, folder: Path) -> None:
    store = MotionStore(folder)
    best = store.entry(hop())
    assert best is not None
    for worse in (replace(best, violation=best.violation + 1e-9), replace(best, objective=best.objective + 1e-6)):
        kept, is_changed = store._keep(worse)
        assert not is_changed
        assert kept.version == best.version


def test_an_entry_survives_its_file_bit_for_bit(answers, tmp_path: Path) -> None:
    entry = answers[-1].entry
    write_entry(entry, tmp_path / "one.safetensors")
    back = read_entry(tmp_path / "one.safetensors")
    assert np.array_equal(back.q, entry.q)
    assert (back.violation, back.objective, back.version) == (entry.violation, entry.objective, entry.version)
    assert StoreKey.from_problem(back.problem).distance(StoreKey.from_problem(entry.problem)) == 0.0
    assert [path.name for path in tmp_path.iterdir()] == ["one.safetensors"]  # nothing half-written is left


def test_a_write_that_fails_leaves_the_old_entry(answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "one.safetensors"
    write_entry(answers[-1].entry, path)
    before = path.read_bytes()

    def broken(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", broken)
    with pytest.raises(OSError, match="disk full"):
        write_entry(replace(answers[-1].entry, violation=0.0), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["one.safetensors"]


# Keys


def test_requests_with_other_contacts_are_not_comparable() -> None:
    key = StoreKey.from_problem(hop())
    other = replace(hop(), phases=hop().phases[:2])
    assert key.distance(StoreKey.from_problem(other)) == np.inf
    assert key.distance(StoreKey.from_problem(replace(hop(), character="fang22"))) == np.inf
    assert key.distance(StoreKey.from_problem(replace(hop(), gravity=1.6))) == np.inf


def test_distances_grow_with_the_difference_and_are_symmetric() -> None:
    key = StoreKey.from_problem(hop())
    near, far = StoreKey.from_problem(hop(reach_m=0.55)), StoreKey.from_problem(hop(reach_m=0.8))
    assert 0.0 < key.distance(near) < key.distance(far)
    assert key.distance(far) == far.distance(key)


def test_a_place_in_the_world_does_not_matter() -> None:
    moved = tuple(
        replace(phase, contacts=tuple(replace(c, position=(1.0, 0.0, c.position[2] + 3.0)) for c in phase.contacts))
        for phase in hop().phases
    )
    assert StoreKey.from_problem(hop()).distance(StoreKey.from_problem(replace(hop(), phases=moved))) < 1e-12


def test_retiming_stretches_every_phase_by_itself(answers) -> None:
    entry = answers[-1].entry
    longer = retime_entry(entry, hop(flight_s=0.6))
    own = motion_from_entry(entry)
    assert longer.duration_s == pytest.approx(own.duration_s + 0.3, abs=0.02)
    edge = round(0.35 * entry.rate_hz)
    np.testing.assert_allclose(longer.root_positions[:edge], own.root_positions[:edge], atol=0.02)


# What is refused


def test_an_empty_store_without_time_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing like 'hop'"):
        MotionStore(tmp_path).request(hop(), quota_s=0.0)


@pytest.mark.parametrize("quota_s", [-1.0, np.nan, np.inf])
def test_a_quota_that_is_no_time_is_refused(tmp_path: Path, quota_s: float) -> None:
    with pytest.raises(InputError, match="quota"):
        MotionStore(tmp_path).request(hop(), quota_s=quota_s)


def test_a_missing_folder_is_refused_if_it_must_exist(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        MotionStore(tmp_path / "nowhere", create=False)


@pytest.mark.parametrize("damage", [b"", b"no header at all", b"\x10\x00\x00\x00\x00\x00\x00\x00{}"])
def test_a_damaged_entry_is_refused_with_its_file(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(damage)
    with pytest.raises(FormatError, match=r"bad\.safetensors"):
        MotionStore(tmp_path).lookup(hop())


def test_an_entry_with_numbers_that_are_no_motion_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nan.safetensors"
    write_entry(StoreEntry(hop(), np.full((10, 7), np.nan), 120.0, 0.0, 0.0), path)
    with pytest.raises(FormatError, match="no motion"):
        read_entry(path)


def test_a_truncated_entry_is_refused(answers, tmp_path: Path) -> None:
    path = tmp_path / "cut.safetensors"
    write_entry(answers[-1].entry, path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FormatError, match="not a readable"):
        read_entry(path)


# What counts as near


def turned(lower: float) -> SpacetimeProblem:
    return replace(hop(), keys=(Key("turn", hop().phases[0].name, 0.0, lower=lower, upper=lower + 0.1),))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (turned(0.0), turned(0.4)),
        (hop(), replace(hop(), height_m=1.9)),
        (hop(), replace(hop(), mass_kg=90.0)),
    ],
)
def test_another_turn_or_another_body_is_another_request(one: SpacetimeProblem, other: SpacetimeProblem) -> None:
    assert StoreKey.from_problem(one).distance(StoreKey.from_problem(one)) == 0.0
    assert 0.1 < StoreKey.from_problem(one).distance(StoreKey.from_problem(other)) < np.inf


def test_keys_about_another_axis_are_not_compared() -> None:
    roll = replace(turned(0.0), keys=(replace(turned(0.0).keys[0], axis="roll"),))
    assert StoreKey.from_problem(roll).distance(StoreKey.from_problem(turned(0.0))) == np.inf
