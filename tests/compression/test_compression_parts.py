"""Small parts: steps, feet, measures, fields of the skeleton, reduced inverse kinematics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.base import FormatError, InputError
from marey.compression import compress, compute_distortion, compute_shell_errors, decompress, evaluate_codec
from marey.compression.codec import compute_movement, measure_foot_skate
from marey.compression.decoder_ik import (
    _assemble_normal_equations,
    _evaluate_cost,
    _forward_kinematics,
    _Goal,
    _ReducedPose,
    _smooth_stance,
    _to_reduced,
    detect_standing_points,
    has_lockable_feet,
    lock_feet,
)
from marey.compression.file_format import (
    MAX_VALUES,
    FieldReader,
    FieldWriter,
    check_table_size,
    check_writable,
    decode_steps,
    encode_steps,
    read_clip,
    read_skeleton,
    skeleton_digest,
    write_clip,
    write_skeleton,
)
from marey.compression.predictive import read_offsets, write_offsets
from marey.compression.wavelet import decode_step, encode_wavelet
from marey.lie import SO3
from marey.models import PGA
from marey.samples import walk
from marey.skeleton import Skeleton


@pytest.fixture(scope="module")
def steps():
    return walk()


@given(st.floats(1e-9, 1e9))
def test_steps_are_kept_within_an_eighth_of_an_octave(step):
    back = float(decode_steps(encode_steps(np.array([step])))[0])
    assert abs(np.log2(back / step)) <= 0.125 + 1e-9
    assert encode_steps(np.array([back])) == encode_steps(np.array([step]))


def test_steps_out_of_range_are_refused():
    with pytest.raises(FormatError):
        decode_steps(np.array([10_000]))
    with pytest.raises(FormatError):
        decode_step(-(10**6))


def test_feet_of_a_walk_stand_in_turn(steps):
    stands = detect_standing_points(steps)
    assert has_lockable_feet(steps.skeleton) and stands.shape == (steps.num_frames, 4)
    left, right = stands[:, :2].any(axis=1), stands[:, 2:].any(axis=1)
    assert 0.2 < left.mean() < 0.95 and 0.2 < right.mean() < 0.95
    assert (left != right).any()


def test_locking_stills_the_feet_of_a_trembling_walk(steps):
    rng = np.random.default_rng(6)
    shaken = (steps.rotations @ SO3.exp(2e-3 * rng.normal(size=(*steps.rotations.shape, 3)))).wxyz
    trembling = replace(steps, rotations=SO3(shaken))
    locked = lock_feet(trembling, detect_standing_points(steps))
    assert measure_foot_skate(locked, steps) < 0.6 * measure_foot_skate(trembling, steps)
    assert np.array_equal(locked.root_positions, trembling.root_positions)
    assert np.abs(locked.joint_positions() - trembling.joint_positions()).max() < 0.05


def test_stilling_leaves_a_track_alone_where_nothing_stands():
    track = np.random.default_rng(7).normal(size=(30, 3))
    np.testing.assert_allclose(_smooth_stance(track, np.zeros(30, dtype=bool)), track, atol=1e-12)
    held = _smooth_stance(track, np.ones(30, dtype=bool))
    assert np.abs(np.diff(held, axis=0)).max() < 0.1 * np.abs(np.diff(track, axis=0)).max()
    np.testing.assert_allclose(held.mean(axis=0), track.mean(axis=0), atol=1e-9)


def test_standing_flags_survive_the_file(steps):
    stands = detect_standing_points(steps)
    out = FieldWriter()
    out.flags(stands)
    out.whole(0)
    fields = FieldReader(bytes(out.data))
    assert np.array_equal(fields.flags(steps.num_frames, 4), stands)
    assert fields.whole(1) == 0
    with pytest.raises(FormatError):
        FieldReader(bytes(out.data)).flags(steps.num_frames + 9, 4)


def test_locked_files_decode_as_they_were_judged(steps):
    data = compress(steps, distortion_percent=1.0, lock_feet=True)
    back = decompress(data)
    assert compute_distortion(steps, back) <= 1.0
    plain = compress(steps, distortion_percent=1.0)
    assert (
        evaluate_codec(steps, back, data).foot_skate_ratio
        <= evaluate_codec(steps, decompress(plain), plain).foot_skate_ratio
    )


def test_the_measures_of_a_shifted_clip_are_known(steps):
    shifted = replace(steps, root_positions=steps.root_positions + np.array([0.03, 0.0, 0.04]))
    report = evaluate_codec(steps, shifted, b"12345678")
    assert report.max_joint_error_mm == pytest.approx(50.0) and report.mean_joint_error_mm == pytest.approx(50.0)
    assert report.max_shell_error_mm == pytest.approx(50.0)
    assert report.mean_local_error_mm == pytest.approx(0.0, abs=1e-9)
    assert report.jerk_ratio == pytest.approx(1.0) and report.foot_skate_ratio == pytest.approx(1.0)
    expected = 100.0 * 0.05 / np.sqrt(3.0) / compute_movement(steps)
    assert report.distortion_percent == pytest.approx(expected)
    assert report.distortion_energy_percent == pytest.approx(expected**2 / 100.0)


def test_clips_of_different_lengths_are_not_compared(steps):
    with pytest.raises(InputError, match="own decoded"):
        compute_shell_errors(steps, steps[:5])


def test_rooms_are_checked():
    check_table_size(100, 50, 1000)
    with pytest.raises(FormatError, match="cannot be"):
        check_table_size(10**6, 50, 10)
    with pytest.raises(FormatError):
        check_table_size(MAX_VALUES, 2, 1 << 40)
    with pytest.raises(InputError, match="Cut the clip"):
        check_writable(MAX_VALUES, 2)


@pytest.mark.parametrize("unit", [1.0, 0.01, 0.0254 / 0.45, np.e])
def test_offsets_survive_the_file_bit_by_bit(unit, chain):
    s = chain.skeleton
    offsets = np.rint(s.offsets / unit * 1e5) / 1e5 * unit
    body = Skeleton(s.names, s.parents, offsets, s.tips, (), "body")
    out = FieldWriter()
    write_skeleton(out, body, is_inside=True)
    back = read_skeleton(FieldReader(bytes(out.data)), None)
    assert np.array_equal(back.offsets, offsets)
    assert skeleton_digest(back) == skeleton_digest(body) != skeleton_digest(s.scaled(1.001))


def test_clip_fields_survive_the_file(chain):
    out = FieldWriter()
    write_clip(out, chain)
    frames, rate_hz, name, contacts = read_clip(FieldReader(bytes(out.data)))
    assert (frames, rate_hz, name) == (90, 29.97, "chain clip")
    assert contacts is not None and np.array_equal(contacts.active, chain.contacts.active)


def test_moving_offsets_survive_the_file(chain):
    rng = np.random.default_rng(8)
    table = np.tile(chain.skeleton.offsets, (50, 1, 1))
    table[:, 4] += rng.normal(size=(50, 3)).cumsum(axis=0) * 1e-3
    out = FieldWriter()
    kept = write_offsets(out, table, 1e-4)
    back = read_offsets(FieldReader(bytes(out.data)), 50, chain.skeleton)
    assert kept is not None and back is not None
    assert np.array_equal(kept, back)
    assert np.abs(back - table).max() <= 0.6e-4
    assert np.array_equal(back[:, 5], table[:, 5])


def test_a_verdict_that_nothing_pleases_is_an_error(chain):
    from marey.base import ConvergenceError

    with pytest.raises(ConvergenceError, match="does not reach so small a distortion"):
        encode_wavelet(chain[:10], lambda decoded: False, is_inside=True, first_step_m=1e-6)


def make_pose(joints, k):
    shapes = ((joints, 4), (joints, 4), (joints, 3), (joints, 3, k), (3, k))
    return _ReducedPose(*(np.empty(shape) for shape in shapes))


def test_reduced_inverse_kinematics_has_the_slope_of_its_cost(steps):
    model = PGA(n_components=4).fit(steps)
    targets = np.random.default_rng(9).normal(size=(3, 3))
    reduced, pose = _to_reduced(model), make_pose(steps.skeleton.num_joints, 4)
    goal = _Goal(np.array([10, 15, 20]), targets, np.full(4, 0.1), 0.5)
    x = np.array([0.3, -0.2, 0.1, 0.05])

    def cost(at):
        _forward_kinematics(reduced, at, pose)
        return _evaluate_cost(goal, at, pose)

    numeric = [(cost(x + 1e-6 * e) - cost(x - 1e-6 * e)) / 2e-6 for e in np.eye(4)]
    cost(x)
    normal, slope = np.empty((4, 4)), np.empty(4)
    _assemble_normal_equations(reduced, goal, x, pose, normal, slope)
    np.testing.assert_allclose(-2.0 * slope, numeric, atol=1e-6)


def test_the_root_frame_places_are_those_of_the_skeleton(steps):
    model = PGA(n_components=4).fit(steps)
    x, pose = model.encode(steps)[7], make_pose(steps.skeleton.num_joints, 4)
    _forward_kinematics(_to_reduced(model), x, pose)
    expected = model.decode(x[None], root_positions=np.zeros(3)).joint_positions()[0]
    np.testing.assert_allclose(pose.places, expected, atol=1e-12)
