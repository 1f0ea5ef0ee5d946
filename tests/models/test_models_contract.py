"""The battery on every pose model, and what all fits refuse."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from marey import SO3, Motion, Skeleton, samples
from marey.base import FormatError, InputError, MareyError, MissingFileError, UnknownNameError
from marey.models import PCA, PGA, joint_error, load_model
from marey.models.samples import body_difference
from marey.models.selection import reconstruct

SETTINGS = [
    PGA(n_components=6),
    PGA(explained=0.9),
    PGA(n_components=5, kind="second"),
    PGA(n_components=4, method="exact"),
    PGA(n_components=3, method="exact", kind="second"),
    PGA(n_components=5, weights="lever"),
    PGA(n_components=0),
    PCA(n_components=6),
    PCA(space="euler", explained=0.9),
    PCA(n_components=5, root="full"),
    PCA.behaviour(),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_every_pose_model_passes_the_battery(settings, clip, check_pose_model):
    check_pose_model(settings.fit(clip), clip)


def test_a_model_of_the_sample_walk_passes_the_battery(check_pose_model):
    walk = samples.walk()
    model = PGA(explained=0.95).fit([walk, samples.run()])
    check_pose_model(model, walk)
    assert model.explained.sum() >= 0.95
    assert model.mean.root_position[1] == pytest.approx(0.9, abs=0.2)


def test_settings_print_as_they_were_written():
    assert repr(PGA(n_components=12)).startswith("PGA(n_components=12, ")
    assert PGA(weights=[1.0, 2.0]) == PGA(weights=np.array([1.0, 2.0]))
    assert "5 geodesics" in repr(PGA(n_components=5).fit(samples.walk()))


def test_explained_shares_choose_the_number_of_components(clip):
    whole = PGA(explained=1.0).fit(clip)
    sums = np.cumsum(whole.explained)
    assert sums[-1] == pytest.approx(1.0, abs=1e-12)
    for share in (0.5, 0.9, 0.95, 0.99):
        fitted = PGA(explained=share).fit(clip)
        k = fitted.num_components
        assert sums[k - 1] >= share > (sums[k - 2] if k > 1 else 0.0)


def test_tournier_21_a_constant_clip_gives_an_exact_model_without_components(clip, check_pose_model):
    still = Motion(clip.skeleton, 60.0, np.zeros((4, 3)), SO3(np.repeat(clip.rotations.wxyz[:1], 4, axis=0)))
    for settings in (PGA(), PGA(method="exact"), PCA(), PCA(space="euler"), PGA(weights="lever")):
        model = settings.fit(still)
        assert model.num_components == 0
        assert joint_error(model, still).max_cm < 1e-10
        check_pose_model(model, still)


def test_tournier_21_a_clip_of_one_frame_is_refused(clip):
    for settings in (PGA(), PCA()):
        with pytest.raises(InputError, match="at least 2"):
            settings.fit(clip[:1])
        assert settings.fit([clip[:1], clip[5:6]]).num_components == 1


def test_no_clip_and_a_root_alone_are_refused():
    with pytest.raises(InputError, match="no clip"):
        PGA().fit([])
    alone = Skeleton(("root",), np.array([-1]), np.zeros((1, 3)))
    with pytest.raises(InputError, match="root alone"):
        PGA().fit(Motion(alone, 30.0, np.zeros((3, 3)), SO3.identity(3, 1)))


def test_skeletons_that_differ_are_named():
    names, parents = ("a", "b", "c"), np.array([-1, 0, 1])
    offsets = np.array([[0, 0, 0], [0, 1, 0], [0, 1, 0]], dtype=float)
    body = Skeleton(names, parents, offsets)
    assert body_difference(body, body.scaled(1.7)) is None
    assert body_difference(body, Skeleton(("a", "b", "d"), parents, offsets)) == "joint 2 is called 'd', not 'c'"
    assert body_difference(body, Skeleton(names, np.array([-1, 0, 0]), offsets)) == "'c' hangs on 'a', not on 'b'"
    assert body_difference(body, Skeleton(names[:2], parents[:2], offsets[:2])) == "2 joints, not 3; 'c' is in one only"
    aside = Skeleton(names, parents, [[0, 0, 0], [0, 1, 0], [1, 0, 0]])
    assert body_difference(body, aside) == "the bone to 'c' rests 90 degrees away from where it should"


def test_fitting_clips_of_different_joints_says_which_clip_and_what(clip):
    walk = samples.walk()
    with pytest.raises(InputError, match=r"clip 1 \('walk.*another skeleton: 22 joints, not 13"):
        PGA().fit([clip, walk])


def test_a_body_of_another_size_shares_the_model(clip):
    model = PGA(n_components=4).fit(clip)
    tall = Motion(clip.skeleton.scaled(1.3), clip.rate_hz, clip.root_positions, clip.rotations)
    np.testing.assert_array_equal(model.encode(tall), model.encode(clip))
    assert model.decode(model.encode(clip), skeleton=tall.skeleton).skeleton is tall.skeleton
    assert reconstruct(model, tall).skeleton is tall.skeleton


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: PGA(n_components=-1), "n_components"),
        (lambda: PGA(explained=0.0), "share of the variance"),
        (lambda: PCA(explained=1.5), "share of the variance"),
        (lambda: PGA(method="exactly"), "Did you mean 'exact'"),
        (lambda: PGA(kind="third"), "no kind 'third'"),
        (lambda: PGA(weights="levers"), "Did you mean 'lever'"),
        (lambda: PCA(space="quaternion"), "no space"),
        (lambda: PCA(root="yes"), "no root"),
        (lambda: PCA(at_least=5, at_most=3), "at_least"),
    ],
)
def test_settings_that_mean_nothing_are_refused(make, what):
    with pytest.raises(MareyError, match=what):
        make()


def test_weights_must_fit_the_skeleton(clip):
    with pytest.raises(InputError, match="weights has shape"):
        PGA(weights=[1.0, 2.0]).fit(clip)
    with pytest.raises(InputError, match="negative or all zero"):
        PGA(weights=np.zeros(clip.skeleton.num_joints)).fit(clip)


def test_a_joint_of_no_weight_still_follows_the_others(clip):
    weights = np.ones(clip.skeleton.num_joints)
    weights[4] = 0.0
    model = PGA(n_components=8, weights=weights).fit(clip)
    fixed = model.decode(model.encode(clip)).rotations[:, 4]
    assert fixed.wxyz.std(axis=0).max() > 0.01


def test_an_unknown_projection_is_refused(clip):
    with pytest.raises(UnknownNameError, match="projection"):
        PGA(n_components=2).fit(clip).encode(clip, projection="orthogonal")


# Files


@pytest.fixture
def model_file(clip, tmp_path):
    path = tmp_path / "model.safetensors"
    PGA(n_components=3).fit(clip).save(path)
    return path


def _with_header(path, change):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    described = json.loads(header["__metadata__"]["marey"])
    change(header, described)
    header["__metadata__"]["marey"] = json.dumps(described)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])


def test_a_model_of_a_later_version_asks_for_an_upgrade(model_file):
    _with_header(model_file, lambda _, d: d.update(model_version=99))
    with pytest.raises(FormatError, match=r"version 99.*Upgrade marey"):
        load_model(model_file)


def test_a_clip_file_is_no_model(tmp_path):
    from marey import save

    path = tmp_path / "walk.safetensors"
    save(samples.walk(), path)
    with pytest.raises(FormatError, match="not a pose model"):
        load_model(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda h, d: d.pop("joints"),
        lambda h, d: d.update(family="magic"),
        lambda h, d: d.update(kind="third"),
        lambda h, d: d.update(rate_hz="fast"),
        lambda h, d: h.pop("basis"),
        lambda h, d: d.update(joints=["one"]),
    ],
)
def test_a_damaged_model_is_a_format_error(model_file, change):
    _with_header(model_file, change)
    with pytest.raises(FormatError):
        load_model(model_file)


def test_truncated_and_missing_model_files_are_named(model_file, tmp_path):
    data = model_file.read_bytes()
    for size in (0, 5, 8, 100, len(data) - 10):
        model_file.write_bytes(data[:size])
        with pytest.raises(FormatError, match=r"model\.safetensors"):
            load_model(model_file)
    with pytest.raises(MissingFileError):
        load_model(tmp_path / "nothing.safetensors")


def test_a_model_is_saved_where_it_can_be(clip, tmp_path):
    model = PGA(n_components=1).fit(clip)
    with pytest.raises(InputError, match=r"Use the suffix \.safetensors"):
        model.save(tmp_path / "model.npz")
    with pytest.raises(MissingFileError):
        model.save(tmp_path / "nowhere" / "model.safetensors")
