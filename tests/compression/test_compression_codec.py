"""compress and decompress: the bound, the contents, the same bytes, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marey.base import InputError, MareyError, UnknownNameError
from marey.compression import (
    compress,
    compute_distortion,
    compute_joint_errors,
    compute_shell_errors,
    decompress,
    evaluate_codec,
    rate_distortion,
)
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import EulerLimits, Skeleton

from .conftest import chain_motion, smooth


def worst(motion: Motion, decoded: Motion) -> float:
    return max(compute_joint_errors(motion, decoded).max(), compute_shell_errors(motion, decoded).max())


@pytest.mark.parametrize("bound", [1e-5, 1e-4, 1e-3, 1e-2, 0.1])
def test_tournier_36_the_bound_holds_on_every_frame(chain, bound):
    assert worst(chain, decompress(compress(chain, max_error_m=bound))) <= bound


@pytest.mark.parametrize("levels", [0, 2, 5])
def test_the_bound_holds_for_every_order_of_frames(chain, levels):
    assert worst(chain, decompress(compress(chain, max_error_m=1e-3, levels=(levels,)))) <= 1e-3


@given(st.integers(0, 1000), st.integers(1, 40), st.sampled_from([1e-4, 1e-2]))
@settings(max_examples=4)
def test_the_bound_holds_for_any_clip(seed, frames, bound):
    rng = np.random.default_rng(seed)
    wild = chain_motion(seed, frames, noise=0.2)
    jumps = SO3.random(rng, frames, 11)
    motion = replace(wild, rotations=jumps) if seed % 3 == 0 else wild
    assert worst(motion, decompress(compress(motion, max_error_m=bound))) <= bound


@pytest.mark.parametrize("bound", [1e-4, 5e-3, 0.1])
def test_a_single_rest_pose_keeps_any_bound(chain, bound):
    still = replace(chain[:1], rotations=SO3.identity(1, chain.skeleton.num_joints), contacts=None)
    assert worst(still, decompress(compress(still, max_error_m=bound))) <= bound


def test_all_fields_come_back(chain):
    back = decompress(compress(chain, max_error_m=1e-3))
    assert back.name == chain.name and back.rate_hz == chain.rate_hz
    assert back.skeleton.names == chain.skeleton.names and back.skeleton.name == "chain"
    assert np.array_equal(back.skeleton.parents, chain.skeleton.parents)
    assert np.array_equal(back.skeleton.offsets, chain.skeleton.offsets)
    assert np.array_equal(back.skeleton.tips, chain.skeleton.tips)
    assert back.contacts is not None and chain.contacts is not None
    assert back.contacts.names == chain.contacts.names
    assert np.array_equal(back.contacts.active, chain.contacts.active)
    assert back.translations is None


def test_limits_and_odd_names_of_the_skeleton_come_back(chain):
    names = ("a\nb", "é", "", *chain.skeleton.names[3:])
    limit = EulerLimits("é", "xz", np.array([-1.0, 0.1]), np.array([1.0, 0.3]), SO3.exp((0.1, 0.2, 0.3)))
    s = chain.skeleton
    offsets = s.offsets * np.pi
    odd = Skeleton(names, s.parents, offsets, s.tips, (limit,), "odd\0")
    back = decompress(compress(replace(chain, skeleton=odd), max_error_m=1e-3)).skeleton
    assert back.names == names and back.name == "odd\0"
    assert np.array_equal(back.offsets, offsets)
    assert back.limits[0].joint == "é" and back.limits[0].order == "xz"
    np.testing.assert_array_equal(back.limits[0].axis.wxyz, limit.axis.wxyz)


@pytest.mark.parametrize("bound", [1e-4, 1e-2])
def test_moving_offsets_are_coded_within_the_bound(chain, bound):
    rng = np.random.default_rng(9)
    moving = np.tile(chain.skeleton.offsets, (chain.num_frames, 1, 1))
    moving[:, 3:6] += smooth(rng, chain.num_frames, 3, 3, size=0.01)
    motion = replace(chain, translations=moving)
    back = decompress(compress(motion, max_error_m=bound))
    assert back.translations is not None
    assert np.array_equal(back.translations[:, 1], moving[:, 1])
    assert worst(motion, back) <= bound


def test_same_motion_same_bytes(chain):
    assert compress(chain, max_error_m=1e-3) == compress(chain, max_error_m=1e-3)
    assert compress(chain, distortion_percent=2.0) == compress(chain, distortion_percent=2.0)


def test_a_decoded_motion_can_be_coded_again_within_the_bound(chain):
    once = decompress(compress(chain, max_error_m=1e-3))
    assert worst(once, decompress(compress(once, max_error_m=1e-3))) <= 1e-3


def test_frames_that_stand_still_cost_nearly_nothing(chain):
    still = replace(
        chain,
        root_positions=np.tile(chain.root_positions[:1], (4000, 1)),
        rotations=SO3(np.tile(chain.rotations.wxyz[:1], (4000, 1, 1))),
        contacts=None,
    )
    data = compress(still, max_error_m=1e-4)
    assert len(data) < 700
    assert worst(still, decompress(data)) <= 1e-4
    assert compute_distortion(still, still) == 0.0 and compute_distortion(still, decompress(data)) == float("inf")
    assert worst(still, decompress(compress(still, distortion_percent=1.0))) <= 1e-6


def test_one_frame_and_one_joint_are_enough():
    one = Motion(Skeleton(("a",), np.array([-1]), np.zeros((1, 3))), 30.0, np.ones((1, 3)), SO3.identity(1, 1))
    assert worst(one, decompress(compress(one, max_error_m=1e-4))) <= 1e-4


def test_skeleton_outside_is_smaller_and_must_be_given(chain):
    inside, outside = (compress(chain, max_error_m=1e-3, skeleton=where) for where in ("inside", "outside"))
    assert len(outside) < len(inside) - 100
    assert worst(chain, decompress(outside, skeleton=chain.skeleton)) <= 1e-3
    with pytest.raises(InputError, match="not in the file"):
        decompress(outside)


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_tournier_39_a_wrong_skeleton_is_refused(chain, where):
    data = compress(chain, max_error_m=1e-3, skeleton=where)
    with pytest.raises(InputError, match="is not the skeleton"):
        decompress(data, skeleton=chain.skeleton.scaled(1.01))


@pytest.mark.parametrize("percent", [10.0, 1.0, 0.1])
def test_a_distortion_rate_is_met_and_used_up(chain, percent):
    data = compress(chain, distortion_percent=percent)
    reached = compute_distortion(chain, decompress(data))
    assert 0.5 * percent < reached <= percent


def test_tournier_36_the_curve_falls(chain):
    reports = rate_distortion(chain, max_errors_m=(1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2))
    assert [r.bytes for r in reports] == sorted((r.bytes for r in reports), reverse=True)
    errors = [r.distortion_percent for r in reports]
    assert errors == sorted(errors)


def test_a_report_agrees_with_its_definitions(chain):
    data = compress(chain, max_error_m=1e-2)
    decoded = decompress(data)
    report = evaluate_codec(chain, decoded, data)
    assert report.bytes == len(data)
    assert report.ratio_acl == pytest.approx(40 * 90 * 11 / len(data))
    assert report.ratio_tournier == pytest.approx(12 * 90 * 12 / len(data))
    assert report.distortion_energy_percent == pytest.approx(report.distortion_percent**2 / 100.0)
    positions = chain.joint_positions()
    gap = np.linalg.norm(decoded.joint_positions() - positions)
    assert report.distortion_percent == pytest.approx(100 * gap / np.linalg.norm(positions - positions.mean(axis=0)))
    assert report.as_dict()["max_joint_error_mm"] <= 10.0


def test_the_shell_sees_a_turn_that_joints_do_not(chain):
    wxyz = np.array(chain.rotations.wxyz)
    wxyz[:, 6] = (chain.rotations[:, 6] @ SO3.exp((0.0, 0.0, 0.1))).wxyz
    turned = replace(chain, rotations=SO3(wxyz))
    assert compute_joint_errors(chain, turned).max() < 1e-12
    assert compute_shell_errors(chain, turned).max() == pytest.approx(2.0 * 0.03 * np.sin(0.05), rel=1e-9)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"max_error_m": 0.0}, "max_error_m"),
        ({"max_error_m": float("nan")}, "max_error_m"),
        ({"max_error_m": "much"}, "max_error_m"),
        ({"method": "zip"}, "zip"),
        ({"colour": 3}, "colour"),
        ({"skeleton": "beside"}, "beside"),
        ({"shell_m": -1.0}, "shell_m"),
        ({"distortion_percent": -1.0}, "distortion_percent"),
        ({"distortion_percent": 1.0, "lock_feet": True}, "legs"),
    ],
)
def test_wrong_options_are_refused_by_name(chain, options, word):
    with pytest.raises(MareyError, match=word):
        compress(chain, **options)


def test_a_near_name_is_suggested(chain):
    with pytest.raises(UnknownNameError, match="Did you mean 'tournier2011'"):
        compress(chain, method="tournier")
