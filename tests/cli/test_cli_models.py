"""The verbs that learn and squeeze: fit, limits, compress and decompress, and the rarer options of convert."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from marey import samples
from marey.compression import compress, decompress
from marey.io import load, save
from marey.kinematics import load_limits
from marey.lie import SO3
from marey.models import load_model
from marey.motion import Motion
from marey.skeleton import HUMAN, Skeleton

FIT_KEYS = {"num_components", "explained", "shares", "num_clips", "num_frames", "mean_cm", "p95_cm", "max_cm", "far"}
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def walk(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("clips") / "walk.safetensors"
    save(samples.walk(seconds=1.0, rate_hz=30.0), path)
    return path


@pytest.fixture(scope="module")
def packed_walk(walk) -> bytes:
    return compress(load(walk))


@pytest.fixture(scope="module")
def stick(tmp_path_factory) -> Path:
    """A clip of a body that is no human."""
    path = tmp_path_factory.mktemp("clips") / "stick.safetensors"
    body = Skeleton(("base", "tip"), np.array([-1, 0]), np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
    turns = np.linspace(-0.5, 0.5, 24).reshape(12, 2, 1) * [1.0, 0.0, 0.0]
    save(Motion(body, 30.0, np.zeros((12, 3)), SO3.exp(turns)), path)
    return path


def is_refused(result: SimpleNamespace, *words: str, code: int = 1) -> bool:
    """One line on stderr with these words, nothing on stdout; the exit code of work that failed, or 2 of usage."""
    lines = result.err.splitlines()
    return (result.code, result.out, len(lines)) == (code, "", 1) and all(word in lines[0] for word in words)


def worst_m(one: Path, other: Path) -> float:
    a, b = load(one), load(other)
    order = [b.skeleton.index(name) for name in a.skeleton.names]  # a BVH lists the joints depth first
    gap = a.joint_positions() - b.joint_positions()[:, order]
    return float(np.linalg.norm(gap, axis=-1).max())


def test_fit_as_json_has_its_keys_and_counts_the_frames(run, walk, tmp_path):
    result = run("fit", walk, walk, "-o", tmp_path / "m.safetensors", "--json")
    facts = json.loads(result.out)
    assert set(facts) == FIT_KEYS | {"file", "method"}
    assert (facts["num_clips"], facts["num_frames"]) == (2, 2 * load(walk).num_frames)
    assert facts["explained"] == pytest.approx(sum(facts["shares"]))
    assert facts["mean_cm"] <= facts["p95_cm"] <= facts["max_cm"]


@pytest.mark.parametrize("components", [1, 5])
@pytest.mark.parametrize("method", ["pga", "pca"])
def test_fit_gives_as_many_components_as_asked(run, walk, tmp_path, method, components):
    out = tmp_path / "m.safetensors"
    assert run("fit", walk, "-o", out, "--method", method, "--components", components).code == 0
    model = load_model(out)
    assert model.num_components == components
    assert model.skeleton.names == HUMAN.names


def test_more_components_leave_a_smaller_error(run, walk, tmp_path):
    def error(count: int) -> float:
        result = run("fit", walk, "-o", tmp_path / "m.safetensors", "--components", count, "--json")
        return json.loads(result.out)["mean_cm"]

    assert error(6) < error(3) < error(1)


def test_a_larger_share_takes_no_fewer_components(run, walk, tmp_path):
    def count(share: float) -> int:
        result = run("fit", walk, "-o", tmp_path / "m.safetensors", "--explained", share, "--json")
        facts = json.loads(result.out)
        assert facts["explained"] >= share
        return facts["num_components"]

    assert count(0.5) <= count(0.9) <= count(0.99)


def test_fit_refuses_an_unknown_method_in_one_line(run, walk, tmp_path):
    result = run("fit", walk, "-o", tmp_path / "m.safetensors", "--method", "behavior")
    assert is_refused(result, "no method 'behavior'", "Did you mean 'behaviour'", code=2)
    assert not (tmp_path / "m.safetensors").exists()


def test_fit_takes_the_most_common_skeleton_of_a_folder(run, walk, stick, tmp_path):
    folder = tmp_path / "clips"
    folder.mkdir()
    for number in range(2):
        save(load(walk), folder / f"walk{number}.safetensors")
    save(load(walk), folder / "walk2.bvh")  # lists the same joints in another order
    save(load(stick), folder / "stick.safetensors")
    done = run("fit", folder, "-o", folder / "model.safetensors", "--json")
    assert done.code == 0 and json.loads(done.out)["num_clips"] == 3
    assert "1 of 4 clips have other joints" in done.err
    # The model that lies among the clips now is not read as one of them
    assert run("fit", folder, "-o", folder / "model.safetensors").code == 0


def test_fit_refuses_clips_of_different_skeletons(run, walk, stick, tmp_path):
    result = run("fit", walk, stick, "-o", tmp_path / "m.safetensors")
    assert is_refused(result)
    assert not (tmp_path / "m.safetensors").exists()


@pytest.mark.parametrize("options", [["--components", -1], ["--explained", 2.0], ["--kind", "third"]])
def test_fit_refuses_settings_that_mean_nothing(run, walk, tmp_path, options):
    assert is_refused(run("fit", walk, "-o", tmp_path / "m.safetensors", *options), code=2)


@pytest.mark.parametrize("kind", ["box", "cone", "ellipsoid"])
def test_fitted_limits_load_and_contain_the_clip(run, walk, tmp_path, kind):
    out = tmp_path / "limits.safetensors"
    result = run("limits", "fit", walk, "-o", out, "--kind", kind, "--json")
    facts = json.loads(result.out)
    limits = load_limits(out)
    assert (facts["kind"], limits.kind, facts["num_joints"]) == (kind, kind, HUMAN.num_joints)
    assert limits.violations(load(walk).rotations).max() < 1e-6


def test_a_margin_makes_room_for_more(run, walk, tmp_path):
    other = samples.walk(2.0, seconds=1.0, rate_hz=30.0).rotations

    def most(margin: float) -> float:
        run("limits", "fit", walk, "-o", tmp_path / "l.safetensors", "--kind", "box", "--margin-deg", margin)
        return float(load_limits(tmp_path / "l.safetensors").violations(other).max())

    assert most(0.0) > most(5.0)
    assert most(90.0) == 0.0


def test_limits_show_measures_a_clip_they_do_not_hold(run, walk, tmp_path):
    out, other = tmp_path / "l.safetensors", tmp_path / "run.safetensors"
    save(samples.run(seconds=0.7, rate_hz=30.0), other)
    run("limits", "fit", walk, "-o", out, "--kind", "box", "--margin-deg", 0)
    facts = json.loads(run("limits", "show", out, "--clip", other, "--json").out)
    measured = load_limits(out).violations(load(other).rotations)
    assert facts["max_violation_rad"] == pytest.approx(measured.max())
    assert facts["max_violation_rad"] > 0.1
    assert facts["feasible"] < 1.0


def test_limits_show_draws_a_joint_by_its_role(run, walk, tmp_path):
    out, picture = tmp_path / "l.safetensors", tmp_path / "l.png"
    run("limits", "fit", walk, "-o", out, "--kind", "box")
    result = run("limits", "show", out, "-o", picture, "-j", "left_knee")
    assert result.code == 0
    assert picture.read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("options", "word"), [(["--kind", "boxx"], "'boxx'"), (["--metric", "so4"], "Did you mean 'so3'")]
)
def test_limits_fit_refuses_unknown_names_in_one_line(run, walk, tmp_path, options, word):
    result = run("limits", "fit", walk, "-o", tmp_path / "l.safetensors", *options)
    assert is_refused(result, word, code=2)
    assert not (tmp_path / "l.safetensors").exists()


def test_limits_fit_refuses_clips_of_different_skeletons(run, walk, stick, tmp_path):
    assert is_refused(run("limits", "fit", walk, stick, "-o", tmp_path / "l.safetensors", "--kind", "box"))


def test_limits_show_refuses_a_clip(run, walk):
    assert is_refused(run("limits", "show", walk), "not a file of joint limits")


@pytest.mark.parametrize("bound_mm", [0.1, 1.0, 4.0])
def test_compress_honours_the_bound_and_reports_the_error(run, walk, tmp_path, bound_mm):
    packed, back = tmp_path / "w.marey", tmp_path / "back.safetensors"
    result = run("compress", walk, "-o", packed, "--max-error-mm", bound_mm, "--json")
    facts = json.loads(result.out)
    assert run("decompress", packed, "-o", back).code == 0
    error_mm = 1e3 * worst_m(walk, back)
    assert error_mm <= bound_mm
    assert facts["max_joint_error_mm"] == pytest.approx(error_mm, rel=1e-3)
    assert facts["bytes"] == packed.stat().st_size


def test_decompress_writes_many_files_to_a_folder(run, walk, tmp_path):
    for name, stop in (("a", 5), ("b", 9)):
        save(load(walk)[:stop], tmp_path / f"{name}.safetensors")
    packed = [tmp_path / "small" / f"{name}.marey" for name in "ab"]
    run("compress", tmp_path / "a.safetensors", tmp_path / "b.safetensors", "-o", tmp_path / "small")
    result = run("decompress", *packed, "-o", tmp_path / "back", "--format", "safetensors", "--json")
    assert [json.loads(line)["num_frames"] for line in result.out.splitlines()] == [5, 9]
    assert [load(tmp_path / "back" / f"{name}.safetensors").num_frames for name in "ab"] == [5, 9]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_file_is_one_line_with_its_name(run, packed_walk, tmp_path, share):
    packed = tmp_path / "w.marey"
    packed.write_bytes(packed_walk[: int(share * len(packed_walk))])
    assert is_refused(run("decompress", packed, "-o", tmp_path / "back.bvh"), "w.marey")
    assert not (tmp_path / "back.bvh").exists()


def test_a_packed_clip_comes_from_stdin(run, packed_walk, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(packed_walk)))
    assert run("decompress", "-", "-o", tmp_path / "back.safetensors").code == 0
    back = load(tmp_path / "back.safetensors")
    np.testing.assert_array_equal(back.root_positions, decompress(packed_walk).root_positions)


@pytest.mark.parametrize("options", [["--max-error-mm", 0], ["--max-error-mm", -1], ["--method", "zip"]])
def test_compress_refuses_what_it_cannot_do_in_one_line(run, walk, tmp_path, options):
    assert is_refused(run("compress", walk, "-o", tmp_path / "w.marey", *options), code=2)
    assert not (tmp_path / "w.marey").exists()


def test_convert_writes_a_bvh_in_the_unit_asked(run, walk, tmp_path):
    for unit in ("m", "cm"):
        assert run("convert", walk, tmp_path / f"{unit}.bvh", "--out-unit", unit).code == 0
    assert run("convert", tmp_path / "cm.bvh", tmp_path / "x.safetensors", "--unit", "cm").code == 0
    assert worst_m(walk, tmp_path / "x.safetensors") < 1e-4
    assert run("convert", tmp_path / "m.bvh", tmp_path / "y.safetensors", "--unit", "m").code == 0
    assert worst_m(walk, tmp_path / "y.safetensors") < 1e-4


def test_convert_reads_at_the_rate_given(run, walk, tmp_path):
    run("convert", walk, tmp_path / "w.bvh")
    run("convert", tmp_path / "w.bvh", tmp_path / "out.safetensors", "--read-rate-hz", 120)
    motion = load(tmp_path / "out.safetensors")
    assert (motion.rate_hz, motion.num_frames) == (120.0, load(walk).num_frames)


def test_convert_retargets_to_the_body_of_another_file(run, walk, tmp_path):
    save(samples.walk(seconds=0.3, stature_m=1.5), tmp_path / "small.safetensors")
    out = tmp_path / "out.safetensors"
    assert run("convert", walk, out, "--retarget", tmp_path / "small.safetensors").code == 0
    offsets = load(tmp_path / "small.safetensors").skeleton.offsets
    np.testing.assert_allclose(load(out).skeleton.offsets, offsets, atol=1e-6)
    assert load(out).num_frames == load(walk).num_frames


def test_mirroring_twice_gives_the_clip_back(run, walk, tmp_path):
    once, twice = tmp_path / "once.safetensors", tmp_path / "twice.safetensors"
    run("convert", walk, once, "--mirror")
    run("convert", once, twice, "--mirror")
    assert worst_m(walk, once) > 0.05
    assert worst_m(walk, twice) < 1e-6


def test_convert_refuses_an_unknown_suffix(run, walk, tmp_path):
    assert is_refused(run("convert", walk, tmp_path / "out.xyz"), code=2)
