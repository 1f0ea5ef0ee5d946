"""Captured clips: ratios, distortion, speed and feet, as the acceptance checks ask."""

from __future__ import annotations

import time

import numpy as np
import pytest

from marey.compression import (
    compress,
    compute_distortion,
    compute_joint_errors,
    compute_shell_errors,
    decode_tournier,
    decompress,
    encode_tournier,
    evaluate_codec,
    rate_distortion,
    raw_bytes_acl,
)

pytestmark = pytest.mark.mocap

ROWS = {  # of the source's table 9.2: geodesics, levels of root and ends, its ratio, its printed distortion
    "09_06": (6, 4, 4, 17.90, 0.36),
    "85_12": (15, 9, 9, 97.08, 0.56),
    "17_10": (12, 8, 9, 61.54, 0.49),
}


@pytest.mark.parametrize(
    ("number", "ratio", "most"), [("09_06", 28.0, 1.8), ("17_10", 110.0, 3.7), ("85_12", 110.0, 5.2)]
)
def test_tournier_35_ratio_and_distortion(cmu, number, ratio, most):
    clip = cmu(number)
    data = compress(clip, distortion_percent=most)
    report = evaluate_codec(clip, decompress(data), data)
    assert report.distortion_percent <= most
    assert report.ratio_tournier >= 1.5 * ratio  # the skeleton is inside; the check asks for once


@pytest.mark.parametrize("number", ["09_06", *(pytest.param(n, marks=pytest.mark.slow) for n in ("85_12", "17_10"))])
def test_every_row_of_the_thesis_is_beaten_even_as_printed(cmu, number):
    clip = cmu(number)
    *_, ratio, printed = ROWS[number]
    data = compress(clip, distortion_percent=printed, skeleton="outside")
    report = evaluate_codec(clip, decompress(data, skeleton=clip.skeleton), data)
    assert report.distortion_percent <= printed  # without the square that alone fits the source's own figures
    assert report.ratio_tournier >= ratio


@pytest.mark.slow
@pytest.mark.parametrize("number", ["09_06", pytest.param("17_10", marks=pytest.mark.slow)])
def test_at_the_error_of_the_thesis_codec_the_default_is_half_its_size(cmu, number):
    clip = cmu(number)
    k, root, ends, *_ = ROWS[number]
    options = {"n_components": k, "root_levels": root, "end_levels": ends, "aliasing": "allow"}
    theirs = compress(clip, method="tournier2011", **options)
    bound = compute_joint_errors(clip, decode_tournier(encode_tournier(clip, **options))).max()
    ours = compress(clip, max_error_m=float(bound))
    assert compute_joint_errors(clip, decompress(ours)).max() <= bound
    assert 2 * len(ours) <= len(theirs)


@pytest.mark.parametrize(
    "percents", [(0.5, 2.0, 8.0), pytest.param((0.2, 0.5, 1.0, 2.0, 4.0, 8.0), marks=pytest.mark.slow)]
)
def test_tournier_36_rate_falls_as_distortion_grows(cmu, percents):
    reports = rate_distortion(cmu("09_06"), distortions_percent=percents)
    assert [r.bytes for r in reports] == sorted((r.bytes for r in reports), reverse=True)
    assert [r.distortion_percent for r in reports] == sorted(r.distortion_percent for r in reports)


def test_acl_measure_is_held_at_twenty_to_one(cmu):
    raw = packed = 0
    for number in ("02_01", "07_01", "09_06", "49_06"):
        clip = cmu(number)
        data = compress(clip, max_error_m=1e-4)
        assert compute_shell_errors(clip, decompress(data)).max() <= 1e-4
        raw, packed = raw + raw_bytes_acl(clip), packed + len(data)
    assert raw >= 25 * packed


@pytest.mark.timing
def test_tournier_37_decoding_takes_less_than_a_third_of_a_millisecond_a_frame(cmu):
    clip = cmu("17_10")
    for data, limit_ms in (
        (compress(clip[:1200], max_error_m=1e-4), 0.3),
        (compress(clip[:1200], distortion_percent=2.0), 0.3),
        (compress(clip[:1200], method="tournier2011", n_components=12), 5.0),
    ):
        decompress(data)
        times = []
        for _ in range(5):
            start = time.process_time()
            decompress(data)
            times.append(time.process_time() - start)
        assert 1e3 * min(times) / 1200 <= limit_ms


def test_tournier_38_locked_feet_do_not_slide_at_fifty_to_one(cmu):
    clip = cmu("02_01")
    data = compress(clip, distortion_percent=0.3, lock_feet=True)
    report = evaluate_codec(clip, decompress(data), data)
    assert report.ratio_tournier >= 50.0
    assert report.foot_skate_ratio <= 1.2


@pytest.mark.parametrize("options", [{"max_error_m": 0.01}, {"distortion_percent": 2.0}])
def test_tournier_40_a_root_that_turns_round_does_not_jump(cmu, options):
    clip = cmu("38_03")  # a run in a circle; 91_62, which the check names, is not among our clips
    headings = np.unwrap(np.arctan2(*(clip.rotations[:, 0] @ np.array([0.0, 0.0, 1.0]))[:, [0, 2]].T))
    assert np.ptp(headings) > 2.0 * np.pi
    back = decompress(compress(clip, **options))
    jumps = [(m.rotations[:-1, 0].inverse() @ m.rotations[1:, 0]).angle().max() for m in (clip, back)]
    assert jumps[1] <= 2.0 * jumps[0]


@pytest.mark.slow
def test_the_default_beats_the_thesis_codec_in_both_at_once(cmu):
    clip = cmu("17_10")
    theirs = encode_tournier(clip, n_components=12, root_levels=8, end_levels=9, aliasing="allow")
    d = compute_distortion(clip, decode_tournier(theirs))
    data = compress(clip, distortion_percent=0.5 * d)
    assert evaluate_codec(clip, decompress(data), data).ratio_tournier > 2.0 * theirs.scalar_ratio()
