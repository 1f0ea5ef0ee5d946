"""Programmes: values over time, limits of rate, files, and bad input."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import FormatError, InputError, MissingFileError, UnknownNameError
from marey.muscle import ActivationSpline, Muscles, TetMesh, load_programmes
from marey.muscle.muscles.programmes import (
    ActivationPlan,
    ActivationProfile,
    Constant,
    Cosine,
    Impulse,
    Keyframed,
    Wave,
    programme_from_table,
)

ALONG = np.array([0.1, 0.2, 0.3])


@pytest.fixture(scope="module")
def muscles() -> Muscles:
    mesh = TetMesh.box((0.4, 0.1, 0.1), (8, 2, 2))
    lines = {"left": 0.02, "right": 0.08}
    return Muscles(mesh, [ActivationSpline([(0.02, 0.05, z), (0.38, 0.05, z)], name=n) for n, z in lines.items()])


def test_constant_is_the_same_at_all_times():
    assert Constant(0.7).at(3.0, ALONG).tolist() == [0.7, 0.7, 0.7]


def test_impulse_comes_and_goes_and_comes_again():
    pulse = Impulse(1.0, 0.5, 0.6, every_s=2.0)
    values = [pulse.at(t, ALONG)[0] for t in (0.5, 1.2, 1.7, 3.2, 3.8)]
    np.testing.assert_allclose(values, [1.0, 0.6, 1.0, 0.6, 1.0])
    ramped = Impulse(0.0, 1.0, 0.0, ramp_s=0.5)
    assert ramped.at(0.25, ALONG)[0] == pytest.approx(0.5)


def test_cosine_and_wave_follow_their_formulas():
    t = 0.37
    assert Cosine(0.3, 2.0, phase=0.5).at(t, ALONG)[1] == pytest.approx(1.0 + 0.3 * np.cos(4 * np.pi * t + 0.5))
    wave = Wave(0.2, 2.0, 0.4, phase=0.1).at(t, ALONG)
    np.testing.assert_allclose(wave, 1.0 + 0.2 * np.cos(2 * np.pi * (2.0 * t - ALONG / 0.4) + 0.1))


def test_a_wave_travels_at_its_speed():
    wave = Wave(0.2, 1.5, 0.6)
    later = 0.1 / (0.6 * 1.5)  # [s] for 0.1 m
    assert wave.at(1.0, ALONG)[0] == pytest.approx(wave.at(1.0 + later, ALONG)[1])


def test_fade_starts_from_passive():
    assert Cosine(0.3, 1.0, fade_s=2.0).at(0.0, ALONG)[0] == 1.0
    assert Cosine(0.3, 1.0, fade_s=2.0).at(2.0, ALONG)[0] == pytest.approx(1.3)


def test_keys_are_met_and_nothing_overshoots():
    keys = Keyframed([0.0, 1.0, 2.0], [1.0, 0.6, 0.6])
    values = np.array([keys.at(t, ALONG)[0] for t in np.linspace(-1, 3, 81)])
    assert keys.at(1.0, ALONG)[0] == pytest.approx(0.6)
    assert values.min() >= 0.6 - 1e-12 and values.max() <= 1.0 + 1e-12


def test_profile_has_its_shape_after_the_ramp():
    profile = ActivationProfile([0.0, 1.0], [1.0, 0.5], ramp_s=0.5)
    assert profile.at(0.0, ALONG).tolist() == [1.0, 1.0, 1.0]
    np.testing.assert_allclose(profile.at(1.0, ALONG), 1.0 - 0.5 * ALONG / 0.4)


def test_plan_gives_each_spline_its_own(muscles: Muscles):
    plan = ActivationPlan(muscles, {"left": Constant(0.7), "right": Constant(1.0, unit="activation")})
    alpha = plan.at(0.0)
    assert set(alpha[muscles.owners == 0]) == {0.7}
    np.testing.assert_allclose(alpha[muscles.owners == 1], 0.6)
    assert ActivationPlan(muscles, {}).at(1.0).tolist() == [1.0] * muscles.num_segments


def test_rate_is_limited(muscles: Muscles):
    plan = ActivationPlan(muscles, {"left": Impulse(0.1, 0.5, 0.6)}, rate_per_s=2.0)
    alpha = plan.sample(np.arange(60) / 60.0)
    assert np.abs(np.diff(alpha, axis=0)).max() <= 2.0 / 60.0 + 1e-12
    assert alpha.min() == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Constant(-0.1), "negative"),
        (lambda: Constant(float("nan")), "finite"),
        (lambda: Cosine(1.5, 1.0), "goes down to -0.5"),
        (lambda: Wave(0.1, 1.0, 0.0), "wavelength_m"),
        (lambda: Impulse(0.0, 0.0, 0.5), "width_s"),
        (lambda: Keyframed([1.0, 0.0], [1.0, 1.0]), "rise"),
        (lambda: Keyframed([0.0, 1.0], [1.0]), "shape"),
        (lambda: ActivationProfile([0.0, 2.0], [1.0, 1.0]), "shares"),
        (lambda: Constant(0.5, unit="percent"), "percent"),
        (lambda: programme_from_table({"kind": "sine"}), "sine"),
        (lambda: programme_from_table({"kind": "cosine", "amplitud": 1.0}), "amplitude"),
        (lambda: programme_from_table({"kind": "cosine", "amplitude": "much", "rate_hz": 1.0}), "amplitude"),
        (lambda: programme_from_table({"kind": "cosine"}), "not whole"),
    ],
)
def test_bad_programmes_are_named(make, word: str):
    with pytest.raises((InputError, UnknownNameError), match=word):
        make()


def test_unknown_spline_is_named(muscles: Muscles):
    with pytest.raises(UnknownNameError, match="Did you mean 'left'"):
        ActivationPlan(muscles, {"lefd": Constant(1.0)})


def test_programmes_from_toml_and_csv(tmp_path):
    toml = tmp_path / "walk.toml"
    toml.write_text('[left]\nkind = "wave"\namplitude = 0.2\nrate_hz = 1\nwavelength_m = 0.5\n')
    csv = tmp_path / "walk.csv"
    csv.write_text("time_s,left,right\n0,1,1\n0.5,0.6,1\n1,1,0.6\n")
    assert isinstance(load_programmes(toml)["left"], Wave)
    keyed = load_programmes(csv)
    assert keyed["left"].at(0.5, ALONG)[0] == pytest.approx(0.6)
    assert keyed["right"].at(9.0, ALONG)[0] == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.csv", "t,left\n0,1\n", 1),
        ("a.csv", "time_s,left\n0,1\n1\n", 3),
        ("a.csv", "time_s,left\n0,one\n", 2),
        ("a.csv", "time_s,left\n0,nan\n", 2),
        ("a.csv", "time_s,left\n", 2),
        ("a.toml", '\n[left]\nkind = "sine"\n', 2),
        ("a.toml", "left = 3\n", 1),
        ("a.toml", "[left\n", 1),
    ],
)
def test_broken_files_name_the_line(tmp_path, name: str, text: str, line: int):
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(FormatError) as caught:
        load_programmes(file)
    assert caught.value.line == line


def test_missing_file_is_named(tmp_path):
    with pytest.raises(MissingFileError):
        load_programmes(tmp_path / "none.csv")
