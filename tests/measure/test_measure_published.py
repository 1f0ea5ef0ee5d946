"""Measures of papers against cases computed by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey.base import InputError
from marey.measure import compare_frames, compute_l2, compute_npss, measure_motion
from marey.motion import Motion

from .conftest import stand


def test_kimodo_skate_of_a_body_that_slides_is_its_speed() -> None:
    found = measure_motion(stand(120.0, velocity=(0.3, 0.0, 0.4)))
    assert found["kimodo_skate_from_height_mps"] == pytest.approx(0.5, rel=1e-6)
    assert found["kimodo_skate_ratio"] == 1.0
    assert found["kimodo_skate_in_contact_max_mps"] == 0.0  # its own contacts are slower than 0.15 m/s


def test_gmd_counts_frames_above_half_a_metre_per_second() -> None:
    assert measure_motion(stand(velocity=(0.0, 0.0, 0.49)))["gmd_skating_ratio"] == 0.0
    # 60 frames of 20 Hz; the mean over five frames is below 0.5 m/s where three of them are beyond an end
    assert measure_motion(stand(velocity=(0.0, 0.0, 0.62)))["gmd_skating_ratio"] == pytest.approx(56 / 60)


def test_physdiff_measures_are_millimetres_of_height_and_of_way_in_a_frame_at_20_hz() -> None:
    clip = stand(120.0, velocity=(0.0, 0.0, 0.4))
    raised = replace(clip, root_positions=clip.root_positions + np.array([0.0, 0.1, 0.0]))
    sunk = replace(clip, root_positions=clip.root_positions - np.array([0.0, 0.03, 0.0]))
    assert measure_motion(clip)["physdiff_skate_mm"] == pytest.approx(20.0, rel=1e-6)
    assert measure_motion(clip)["physdiff_float_mm"] == measure_motion(clip)["physdiff_penetrate_mm"] == 0.0
    assert measure_motion(raised)["physdiff_float_mm"] == pytest.approx(100.0, abs=0.5)
    assert measure_motion(raised)["physdiff_skate_mm"] == 0.0
    assert measure_motion(sunk)["physdiff_penetrate_mm"] == pytest.approx(30.0, abs=0.5)


def test_edge_pfc_of_a_body_pushed_with_both_feet_on_the_ground() -> None:
    # Root and feet accelerate alike: x = a t^2 / 2, so |a_t| / max is 1 and the way in frame t is a (2t + 3) / (2 f^2)
    clip = stand(30.0, 2.0)
    t = clip.times()
    moved = replace(clip, root_positions=clip.root_positions + 0.5 * 2.0 * t[:, None] ** 2 * np.array([0.0, 0.0, 1.0]))
    ways = 2.0 * (2 * np.arange(len(t) - 2) + 3) / (2 * 30.0**2)
    assert measure_motion(moved)["edge_pfc"] == pytest.approx(1e4 * np.mean(ways**2), rel=1e-6)
    assert measure_motion(stand(velocity=(0.0, 0.0, 1.0)))["edge_pfc"] == pytest.approx(0.0, abs=1e-6)


def test_l2_is_the_mean_over_frames_of_the_norm_over_all_joints() -> None:
    reference = np.zeros((2, 2, 3))
    values = np.array([[[3.0, 0, 0], [0, 4.0, 0]], [[0, 0, 1.0], [0, 0, 0]]])
    assert compute_l2(reference, values) == pytest.approx((5.0 + 1.0) / 2)


def test_npss_of_a_hand_computed_case() -> None:
    # T = 4: a constant has all power at f = 0, [1, -1, 1, -1] at f = 2; cumulative 1,1,1,1 and 0,0,1,1: distance 2
    constant, alternating = np.ones((4, 1)), np.array([[1.0], [-1.0], [1.0], [-1.0]])
    assert compute_npss(constant, constant) == 0.0
    assert compute_npss(constant, alternating) == pytest.approx(2.0)
    # Weighted by the power of the reference: (2 * 16 + 0 * 64) / 80
    both = compute_npss(np.hstack([constant, 2 * constant]), np.hstack([alternating, 2 * constant]))
    assert both == pytest.approx(0.4)


def test_a_clip_against_itself_and_against_itself_moved(walk: Motion) -> None:
    assert compare_frames(walk, walk) == {"l2p_m": 0.0, "l2q": 0.0, "npss": 0.0}
    moved = replace(walk, root_positions=walk.root_positions + np.array([0.0, 0.03, 0.04]))
    found = compare_frames(moved, walk)
    assert found["l2p_m"] == pytest.approx(0.05 * np.sqrt(walk.skeleton.num_joints), rel=1e-9)
    assert found["l2q"] == found["npss"] == 0.0


def test_a_reference_of_another_length_is_compared_by_figures_only(walk: Motion) -> None:
    with pytest.raises(InputError, match="same length"):
        compare_frames(walk, walk[:100])
    found = measure_motion(walk, against=walk[:120])
    assert "l2p_m" not in found
    assert all(figure.source is not None for figure in found.figures if figure.name.startswith("scraped"))


def test_a_joint_step_that_the_source_does_not_have_is_named(walk: Motion) -> None:
    from .broken_walks import bend_knee_backwards

    kinds = {fault.kind for fault in measure_motion(bend_knee_backwards(walk, 100, 30.0), against=walk).faults}
    assert {"step", "backwards"} <= kinds
    assert "step" not in {fault.kind for fault in measure_motion(walk, against=walk).faults}
