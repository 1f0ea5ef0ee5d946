"""Safonova 2006, F4 to F6: spaces of a behaviour."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.charts import from_chart

from marey import SO3, Motion, samples
from marey.base import InputError
from marey.lie import geodesic_distance
from marey.models import PCA
from marey.models.samples import euler_angles, root_from_triples, root_triples, to_chart
from marey.models.selection import ClipFeatures, choose_clips, clip_features
from marey.motion import place


def angles_at(model, coordinates):
    """Angles (F, J, 3) [rad] of coordinates (F, k)."""
    return model.centre + np.einsum("jck,...k->...jc", model.full_basis, coordinates)


def squared_error(model, motion):
    """Mean squared angle [deg^2] over all joints and frames between a clip and its projection (F5)."""
    apart = model.angles(motion) - angles_at(model, model.encode(motion))
    return float((np.rad2deg(apart) ** 2).mean())


@pytest.mark.parametrize("space", ["exponential", "euler"])
@pytest.mark.parametrize("root", ["none", "full"])
def test_safonova_a38_what_is_left_is_the_sum_of_the_dropped_eigenvalues(space, root, clip):
    whole = PCA(explained=1.0, space=space, root=root).fit(clip)
    for k in (1, 5, 9):
        model = whole.truncate(k)
        left = ((model.angles(clip) - angles_at(model, model.encode(clip))) ** 2).sum(axis=(1, 2)).mean()
        assert left == pytest.approx((whole.deviations[k:] ** 2).sum(), rel=1e-9)


JUMPS = ("118_01", "118_02", "118_03", "118_05", "118_06", "118_07", "118_08", "118_10", "118_11", "118_12", "118_13")
RUNS = ("35_17", "35_18", "35_19", "35_20", "35_21", "35_23", "35_24", "35_26")


ALL_JUMPS = (*JUMPS, "118_14", "118_15", "118_16", "118_17", "118_19", "118_20")  # 118_04, 118_09, 118_18 are not here


def with_rest(motion):
    """The clip with the T-pose before it that the files carry and the reader takes away: the reference has it."""
    rest = SO3.identity(motion.skeleton.num_joints).wxyz[None]
    roots = np.concatenate([motion.root_positions[:1], motion.root_positions])
    return Motion(motion.skeleton, motion.rate_hz, roots, SO3(np.concatenate([rest, motion.rotations.wxyz])))


def channels_of(motion):
    """The file's own angles ``(F, 93)`` [deg], T-pose first, every fourth frame: what the reference worked on."""
    angles = motion.source.channels[:, 3:]
    return np.concatenate([np.zeros_like(angles[:1]), angles])[::4]


def space_of(clips):
    """Mean and seven principal axes of the rows of clips."""
    rows = np.concatenate(clips)
    return rows.mean(axis=0), np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[2][:7]


def left_over(space, rows):
    """Mean square of what a space does not hold."""
    away = rows - space[0]
    return float(((away - away @ space[1].T @ space[1]) ** 2).mean())


@pytest.mark.mocap
def test_safonova_a38_the_files_own_angles_give_the_curves_of_the_reference(captured):
    """The reference used 118_01 to 118_20 and 35_17 to 35_25, of which 17 and seven are here: all within 15 %.

    Self 0.69 for 0.69, leave-one-out 3.57 for 3.51, one clip 9.42 for 8.62, runs 163 for 167.7 deg^2.
    """
    jumps = [channels_of(captured(name)) for name in ALL_JUMPS]
    runs = [channels_of(captured(name)) for name in RUNS if name != "35_26"]
    own = np.mean([left_over(space_of([jump]), jump) for jump in jumps])
    rest = np.mean([left_over(space_of(jumps[:i] + jumps[i + 1 :]), jump) for i, jump in enumerate(jumps)])
    one, far = space_of([jumps[ALL_JUMPS.index("118_10")]]), space_of(runs)
    found = [own, rest, *(np.mean([left_over(space, jump) for jump in jumps]) for space in (one, far))]
    assert found == sorted(found)
    np.testing.assert_allclose(found, [0.69, 3.51, 8.62, 167.7], rtol=0.15)


@pytest.mark.slow
@pytest.mark.mocap
def test_safonova_a38_spaces_of_the_same_behaviour_represent_a_jump_best(captured):
    """Self < leave-one-out < single < wrong behaviour, at seven components, in the angles of our own spaces.

    These are nearest to the mean pose, so they are not the file's (the test above): 0.70, 4.65, 9.41 and 177 deg^2 for
    0.69, 3.51, 8.62 and 167.7. Leave-one-out, 32 % off, is asked for within 35 %.
    """
    jumps = [with_rest(captured(name, 4)) for name in ALL_JUMPS]
    runs = [with_rest(captured(name, 4)) for name in RUNS if name != "35_26"]
    settings = PCA(n_components=7, space="euler", root="full")
    single, wrong = settings.fit(jumps[ALL_JUMPS.index("118_10")]), settings.fit(runs)
    own = np.mean([squared_error(settings.fit(jump), jump) for jump in jumps])
    rest = np.mean([squared_error(settings.fit(jumps[:i] + jumps[i + 1 :]), jump) for i, jump in enumerate(jumps)])
    one = np.mean([squared_error(single, jump) for jump in jumps])
    far = np.mean([squared_error(wrong, jump) for jump in jumps])
    assert own < rest < one < far
    for found, printed in ((own, 0.69), (one, 8.62), (far, 167.7)):
        assert found == pytest.approx(printed, rel=0.15)
    assert rest == pytest.approx(3.51, rel=0.35)


@pytest.mark.parametrize("space", ["exponential", "euler"])
def test_safonova_a39_turning_or_moving_a_clip_on_the_ground_leaves_the_basis(space):
    walk = samples.walk()
    settings = PCA(n_components=6, space=space, root="full")
    one = settings.fit(walk)
    two = settings.fit(place(walk, (3.0, -2.0), 2.1))
    flat = [m.full_basis.reshape(-1, 6) for m in (one, two)]
    cosines = np.linalg.svd(flat[0].T @ flat[1], compute_uv=False)
    assert np.arccos(np.clip(cosines, -1.0, 1.0)).max() < 1e-6
    np.testing.assert_allclose(two.centre, one.centre, atol=1e-9)


def test_a_full_turn_of_the_root_ends_at_two_pi(clip):
    angles = np.linspace(0.0, 2.0 * np.pi, clip.num_frames)
    wxyz = np.array(clip.rotations.wxyz)
    wxyz[:, 0] = SO3.exp(angles[:, None] * [0.0, 1.0, 0.0]).wxyz
    yaw = root_triples(replace(clip, rotations=SO3(wxyz)))[:, 1]
    assert yaw[-1] - yaw[0] == pytest.approx(2.0 * np.pi, abs=1e-9)
    triples = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 3))
    turned = root_from_triples(triples)
    assert geodesic_distance(turned, SO3.exp(triples[:, [1]] * [0, 1, 0]) @ SO3.exp(triples * [1, 0, 1])).max() < 1e-15


def test_a_behaviour_space_decodes_the_root_facing_forward():
    walk = place(samples.walk(), heading=0.0)
    model = PCA(explained=1.0, root="full").fit(walk)
    made = model.decode(model.encode(walk), root_positions=walk.root_positions)
    assert geodesic_distance(made.rotations, walk.rotations).max() < 1e-5


def test_turning_clips_keep_yaw_out_of_the_space(clip):
    turning = Motion(clip.skeleton, 60.0, clip.root_positions, _with_yaw(clip, 6.0))
    straight = Motion(clip.skeleton, 60.0, clip.root_positions, _with_yaw(clip, 0.0))
    assert not PCA(root="auto").fit(turning).full_basis[0, 1].any()
    assert PCA(root="full").fit(turning).full_basis[0, 1].any()
    assert not PCA(root="none").fit(straight).covers_root


def _with_yaw(clip, turn):
    wxyz = np.array(clip.rotations.wxyz)
    wxyz[:, 0] = SO3.exp(np.linspace(0.0, turn, len(wxyz))[:, None] * [0.0, 1.0, 0.0]).wxyz
    return SO3(wxyz)


def test_the_automatic_dimension_stays_between_six_and_ten(clip):
    walk = samples.walk()
    assert 6 <= PCA.behaviour().fit(walk).num_components <= 10
    assert PCA.behaviour(0.9999).fit(clip).num_components == 10
    assert PCA(explained=0.5, at_least=7).fit(clip).num_components == 7


@pytest.mark.mocap
def test_safonova_f4_jumps_have_90_percent_of_their_variance_in_seven_components(captured):
    model = PCA(explained=0.9, space="euler", root="full").fit([captured(name, 4) for name in JUMPS])
    assert 5 <= model.num_components <= 9  # the source prints 7 to 9 of several behaviours, its reference 6 of this one


def test_charts_give_the_rotation_back_and_stay_near_the_reference():
    rng = np.random.default_rng(4)
    rotations = SO3.random(rng, 500)
    near = rng.normal(0.0, 2.0, (500, 3))
    for space in ("exponential", "euler"):
        for triples in (to_chart(space, rotations), to_chart(space, rotations, near)):
            assert geodesic_distance(from_chart(space, triples), rotations).max() < 1e-14
    lifted = to_chart("euler", rotations, near)
    assert (
        np.linalg.norm(lifted - near, axis=1) <= np.linalg.norm(euler_angles(rotations) - near, axis=1) + 1e-12
    ).all()


def test_euler_angles_survive_the_quarter_turn():
    for middle in (np.pi / 2, -np.pi / 2):
        angles = np.array([0.3, middle, -0.8])
        rotation = from_chart("euler", angles)
        assert geodesic_distance(from_chart("euler", euler_angles(rotation)), rotation) < 1e-7


def features(phases, forward=1.0, turn=0.0):
    return ClipFeatures(tuple(phases.split()), forward, 0.0, turn, 0.1)


def test_clips_with_the_wanted_contacts_are_chosen_near_first():
    shelf = [features("double flight double", f) for f in (0.5, 1.0, 1.5, 2.0)] + [features("left double right", 1.0)]
    choice = choose_clips(shelf, features("double flight double", 0.9), count=3)
    assert len(choice.indices) == 3 and choice.indices[0] == 1 and 4 not in choice.indices
    assert not choice.is_relaxed and not choice.warning


def test_missing_contacts_relax_by_one_double_support_then_fail():
    shelf = [features("left flight right"), features("right")]
    choice = choose_clips(shelf, features("left double flight right"))
    assert choice.is_relaxed and choice.indices == (0,) and "unnatural" in choice.warning
    with pytest.raises(InputError, match=r"no clip has the contacts hands\|hands"):
        choose_clips(shelf, features("hands hands"))


def test_features_of_clips_do_not_depend_on_where_they_stand():
    jump = samples.jump()
    one, two = clip_features(jump), clip_features(place(jump, (4.0, 1.0), 1.2))
    np.testing.assert_allclose(one.vector(), two.vector(), atol=1e-9)
    assert "flight" in one.phases and one.rise_m > 0.05
    assert clip_features(samples.walk()).forward_m > 1.0
