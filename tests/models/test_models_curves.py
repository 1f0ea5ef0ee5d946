"""Selection curves, pictures and the verb."""

from __future__ import annotations

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from marey import samples, save
from marey.base import InputError
from marey.cli.poses.fit import fit
from marey.models import (
    PCA,
    PGA,
    joint_error,
    load_model,
    mode_motion,
    mode_strips,
    plot_explained,
    plot_selection,
    selection_curve,
)


def test_a_selection_curve_rises_in_variance_and_falls_in_error(clip):
    curve = selection_curve(clip)
    assert curve.counts[0] == 1 and len(curve.counts) <= 30
    assert (np.diff(curve.explained) > 0.0).all()
    assert curve.mean_cm[-1] < 0.2 * curve.mean_cm[0]
    assert (curve.mean_cm <= curve.p95_cm).all() and (curve.p95_cm <= curve.max_cm).all()
    assert len(curve.table().splitlines()) == len(curve.counts) + 1


@pytest.mark.parametrize(
    "settings", [PGA(), PGA(kind="second"), PGA(method="exact"), PCA(), PCA(space="euler")], ids=str
)
def test_each_point_of_a_curve_is_a_model_of_that_size(settings, clip):
    from dataclasses import replace

    curve = selection_curve(clip, settings=settings, counts=[2, 4])
    for i, size in enumerate(curve.counts):
        model = replace(settings, n_components=int(size)).fit(clip)
        assert curve.mean_cm[i] == pytest.approx(joint_error(model, clip).mean_cm, rel=1e-9)
        assert curve.explained[i] == pytest.approx(model.explained.sum(), rel=1e-9)


def test_a_curve_tells_how_many_components_suffice(clip):
    curve = selection_curve(clip)
    assert curve.count_for(explained=0.95) == PGA(explained=0.95).fit(clip).num_components
    k = curve.count_for(mean_cm=float(curve.mean_cm[4]))
    assert curve.mean_cm[list(curve.counts).index(k)] <= curve.mean_cm[4]
    with pytest.raises(InputError, match="for what"):
        curve.count_for()
    with pytest.raises(InputError, match="suffices"):
        curve.count_for(mean_cm=-1.0)
    with pytest.raises(InputError, match="counts"):
        selection_curve(clip, counts=[])


def test_clips_held_out_are_what_a_curve_measures(clip):
    half = clip.num_frames // 2
    held = selection_curve(clip[:half], held_out=clip[half:], counts=[3])
    own = selection_curve(clip[:half], counts=[3])
    assert held.mean_cm[0] > own.mean_cm[0]
    assert held.explained[0] == own.explained[0]


def test_a_component_goes_through_the_mean_by_deviations(clip):
    model = PGA(n_components=3).fit(clip)
    swing = mode_motion(model, 1, reach=2.0, count=5)
    x = model.encode(swing)
    np.testing.assert_allclose(x[:, 1] / model.deviations[1], [-2, -1, 0, 1, 2], atol=1e-9)
    np.testing.assert_allclose(np.delete(x, 1, axis=1), 0.0, atol=1e-9)
    assert mode_strips(model, lambda m: m.num_frames, components=9, count=4) == [4, 4, 4]
    with pytest.raises(InputError, match="Count from zero"):
        mode_motion(model, 3)


def test_plots_show_every_component(clip):
    model = PGA(n_components=5).fit(clip)
    (axis,) = plot_explained(model).axes
    assert [bar.get_height() for bar in axis.patches] == pytest.approx(100.0 * model.explained)
    upper, lower = plot_selection(selection_curve(clip, counts=[1, 2, 3])).axes
    assert len(upper.lines) == 1 and len(lower.lines) == 3
    assert lower.get_ylabel() == "joint error [cm]"


@pytest.fixture(scope="module")
def verb():
    app = typer.Typer()
    app.command()(fit)
    return lambda *args: CliRunner().invoke(app, [str(a) for a in args])


@pytest.fixture(scope="module")
def walk_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("clips") / "walk.safetensors"
    save(samples.walk(), path)
    return path


@pytest.mark.parametrize("method", ["pga", "pga-exact", "pca", "pca-euler", "behaviour"])
def test_the_verb_writes_a_model_that_loads(method, verb, walk_file, tmp_path):
    out = tmp_path / "model.safetensors"
    done = verb(walk_file, "-o", out, "--method", method, "--explained", "0.9", "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    model = load_model(out)
    assert facts["num_components"] == model.num_components
    assert facts["explained"] >= 0.9 and facts["mean_cm"] < 5.0


def test_the_verb_draws_what_it_learnt(verb, walk_file, tmp_path):
    out, plot, modes = tmp_path / "m.safetensors", tmp_path / "e.png", tmp_path / "m.png"
    done = verb(walk_file, walk_file, "-o", out, "--components", "2", "--plot", plot, "--modes", modes)
    assert done.exit_code == 0, done.output
    assert "2 components" in done.stdout
    from matplotlib.image import imread

    assert imread(modes).shape[1] == 1200
    assert imread(plot).std() > 0.01


def test_the_verb_names_an_unknown_method(verb, walk_file, tmp_path):
    done = verb(walk_file, "-o", tmp_path / "m.safetensors", "--method", "pgaa")
    assert done.exit_code == 2
    assert "Did you mean 'pga'" in " ".join(done.output.replace("│", " ").split())


def test_the_verb_refuses_pictures_it_cannot_write(verb, walk_file, tmp_path):
    out = tmp_path / "m.safetensors"
    for option, name, what in (("--plot", "e.xyz", "useoneof.png"), ("--modes", "nowhere/m.png", "nowhere")):
        done = verb(walk_file, "-o", out, option, tmp_path / name)
        assert done.exit_code == 2
        assert option in done.output
        assert what in "".join(done.output.replace("│", " ").split())  # lines break anywhere, also inside a name
    assert not out.exists()
