"""Scenes: files with typed mistakes, and films that hold what [Engell2012] asks of them (checks 42, 52, 53, 56-58)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey.base import FormatError, InputError, UnknownNameError
from marey.muscle import SoftBodyScene, load_scene, scene_names
from marey.muscle.scene.tables import parse_scene

SMALL = """
version = 1
title = "A finger that bends"
seconds = 0.2

[mesh]
spacing_m = 0.05

[[solid]]
kind = "rod"
points = [[0, 0, 0], [0, 0, 0.3]]
radii = [0.04]

[material]
gravity_m_s2 = 0.0

[[pin]]
low = [-1, -1, -1]
high = [1, 1, 0.0]

[[spline]]
name = "flexor"
points = [[0, 0.02, 0.0], [0, 0.02, 0.3]]

[[programme]]
spline = "flexor"
kind = "constant"
value = 0.7
"""


@pytest.fixture
def small() -> SoftBodyScene:
    return SoftBodyScene("small", parse_scene(SMALL, file="small.toml"))


def test_all_scenes_of_the_thesis_are_shipped():
    wanted = {"table", "stool", "snake", "sca", "lizard", "biceps-arm", "human-arm", "overlap", "influence", "fork"}
    assert wanted <= set(scene_names())


@pytest.mark.parametrize("name", scene_names())
def test_a_shipped_scene_reads_and_says_what_it_is(name):
    parts = load_scene(name).parts
    assert parts.title and parts.splines and parts.programmes and parts.checks
    assert {p.spline for p in parts.programmes} <= {s.name for s in parts.splines}


def test_an_unknown_scene_names_the_known_ones():
    with pytest.raises(UnknownNameError, match="Did you mean 'lizard'"):
        load_scene("lizzard")


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("spacing_m = 0.05", "spacng_m = 0.05", 7, "unknown key 'spacng_m'"),
        ("spacing_m = 0.05", "spacing_m = -1", 7, "must be positive"),
        ('kind = "rod"', 'kind = "tube"', 9, "a solid of kind 'tube'"),
        ("radii = [0.04]", "radii = [0.04, 0.1, 0.2]", 9, "one radius"),
        ('spline = "flexor"', 'spline = "flexer"', 26, "no spline 'flexer'"),
        ('kind = "constant"', 'kind = "constand"', 27, "constand"),
        ("value = 0.7", "value = -0.7", 27, "negative"),
        ("version = 1", "version = 9", 2, "scene version 9"),
        ("points = [[0, 0.02, 0.0], [0, 0.02, 0.3]]", "points = [[0, 0, 0]]", 21, "at least two"),
        ("seconds = 0.2", "seconds = nan", 4, "not a finite number"),
        ("[mesh]", "[mesh", 6, "TOML"),
    ],
)
def test_a_mistake_in_a_scene_is_named_with_file_and_line(old, new, line, message):
    with pytest.raises(FormatError, match=message) as caught:
        parse_scene(SMALL.replace(old, new, 1), file="bad.toml")
    assert str(caught.value).startswith(f"bad.toml:{line}:")


def test_a_file_is_a_scene_by_its_path(tmp_path, small):
    file = tmp_path / "finger.toml"
    file.write_text(SMALL, encoding="utf-8")
    assert load_scene(file).name == "finger"
    assert load_scene(str(file)).title == small.title


def test_running_gives_times_positions_and_alphas(small):
    done: list[tuple[int, int]] = []
    film = small.run(on_frame=lambda i, n: done.append((i, n)))
    assert film.num_frames == 13 and film.times[-1] == pytest.approx(0.2)
    assert film.positions.shape == (13, len(small.stage().mesh.nodes), 3)
    np.testing.assert_allclose(film.alphas, 0.7)
    assert done[-1] == (12, 12)


def test_the_same_scene_gives_the_same_film_every_time(small):
    np.testing.assert_array_equal(small.run().positions, small.run().positions)


def test_activations_take_the_place_of_programmes(small):
    stage = small.stage()
    still = small.run(activations={"flexor": 0.0})
    np.testing.assert_allclose(still.positions[-1], still.positions[0], atol=1e-9)
    half = small.run(activations={"flexor": 0.5})
    np.testing.assert_allclose(half.alphas[-1], 0.8)
    table = np.full((13, stage.muscles.num_segments), 0.8)
    np.testing.assert_allclose(small.run(activations=table).positions, half.positions)
    np.testing.assert_allclose(small.run(activations=lambda t: table[0]).positions, half.positions)


@pytest.mark.parametrize("bad", [{"flexor": 1.5}, {"flexor": -0.1}, {"flexor": np.nan}])
def test_an_activation_out_of_range_is_refused(small, bad):
    with pytest.raises(InputError):
        small.run(activations=bad)


@pytest.mark.parametrize(("seconds", "dt"), [(0.0, None), (np.inf, None), (1.0, 0.0), (1.0, 2.0), (1e9, None)])
def test_times_that_make_no_film_are_refused(small, seconds, dt):
    with pytest.raises(InputError):
        small.run(seconds=seconds, dt=dt)


def test_a_pin_that_holds_nothing_is_refused():
    parts = parse_scene(SMALL.replace("high = [1, 1, 0.0]", "high = [1, 1, -0.9]"), file="pin.toml")
    with pytest.raises(InputError, match="pin 0 holds no node"):
        SoftBodyScene("pin", parts).stage()


def test_activity_fades_towards_the_ends_of_a_spline_that_asks_for_it():
    parts = parse_scene(SMALL.replace('name = "flexor"', 'name = "flexor"\nfade = 0.4\nsamples = 11'), file="fade.toml")
    alphas = SoftBodyScene("fade", parts).stage().alphas({"flexor": 1.0})
    assert alphas[0] > 0.88 and alphas[-1] > 0.88
    assert alphas[len(alphas) // 2] == pytest.approx(0.6)
    assert np.all(np.diff(alphas[: len(alphas) // 2]) < 0.0)


def test_a_check_that_fails_is_a_sentence(small):
    from marey.muscle.scene.tables import CheckPart

    film = SoftBodyScene("s", replace(small.parts, checks=(CheckPart("shortening_max", at_least=0.9),))).run()
    assert film.failed[0].startswith("shortening_max is 0.") and film.failed[0].endswith("less than 0.9")


def test_engell_56_the_snake_advances_and_scales_are_why():
    parts = load_scene("snake").parts
    assert parts.ground is not None
    film = load_scene("snake").run(seconds=3.5)
    assert film.metrics["advance_lengths"] >= 1.0
    isotropic = SoftBodyScene("isotropic", replace(parts, ground=replace(parts.ground, friction=(0.5,)))).run(
        seconds=3.5
    )
    assert isotropic.metrics["advance_m"] < 0.2 * film.metrics["advance_m"]
    assert film.metrics["sunk_max_m"] < 0.01 * 0.1


@pytest.mark.parametrize(("name", "seconds"), [("table", 3.0), ("stool", 1.5), ("lizard", 2.0)])
def test_engell_56_a_body_on_legs_advances_a_length_in_twenty_seconds(name, seconds):
    film = load_scene(name).run(seconds=seconds)
    assert film.metrics["advance_lengths"] >= 1.2 * seconds / 20.0  # on its way from the start; the whole is slow
    assert film.metrics["sunk_max_m"] < 0.01
    assert film.report["inverted_max"] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table", "stool", "snake", "lizard"])
def test_engell_56_a_body_goes_on_to_the_end_of_its_film(name):
    film = load_scene(name).run()
    assert film.times[-1] <= 20.0
    assert film.metrics["advance_lengths"] >= 1.0
    assert film.report["inverted_max"] == 0.0
    assert film.failed == ()


def test_engell_57_and_42_the_biceps_flexes_the_arm_bulges_and_keeps_its_volume():
    film = load_scene("biceps-arm").run(seconds=1.05)  # fully active at 1.0 s
    assert film.metrics["flexion_deg"] >= 60.0
    assert film.metrics["girth_growth"] >= 0.05
    assert film.metrics["volume_change"] <= 0.01
    assert film.report["inverted_max"] == 0.0


@pytest.mark.slow
def test_engell_42_the_biceps_scene_keeps_its_volume_within_a_twentieth_by_poissons_ratio_too():
    parts = load_scene("biceps-arm").parts
    soft = replace(parts, material=replace(parts.material, poisson=0.45))
    film = SoftBodyScene("biceps by Poisson's ratio", soft).run(seconds=1.05)
    assert 0.001 < film.metrics["volume_change"] <= 0.05  # one cell of this softer material is inverted on the way


@pytest.mark.slow
def test_engell_57_gravity_brings_the_forearm_back():
    film = load_scene("biceps-arm").run()
    assert film.metrics["flexion_deg"] >= 60.0
    assert film.metrics["return_deg"] <= 10.0
    assert film.failed == ()


def test_engell_58_bones_of_the_human_arm_hardly_strain_while_its_flesh_does():
    film = load_scene("human-arm").run(seconds=1.1)  # deltoids pull fully at 0.9 s
    assert film.metrics["cells"] >= 6900
    assert film.metrics["bone_strain"] <= 0.02
    assert film.metrics["soft_strain"] > 0.10
    assert film.metrics["turned_humerus_deg"] >= 60.0
    assert film.report["inverted_max"] == 0.0


@pytest.mark.slow
def test_engell_58_bones_hold_through_the_whole_film():
    film = load_scene("human-arm").run()
    assert film.metrics["bone_strain"] <= 0.02
    assert film.metrics["turned_humerus_deg"] >= 60.0 and film.metrics["bent_forearm_deg"] >= 90.0
    assert film.report["inverted_max"] == 0.0
    assert film.failed == ()


def test_engell_49_overlapping_splines_neither_push_nor_turn_a_floating_body():
    film = load_scene("overlap").run(seconds=1.2)
    assert film.metrics["drift_lengths"] < 1e-6
    assert film.metrics["spin"] < 1e-6
    assert film.metrics["shortening_max"] > 0.1


def test_engell_52_wider_regions_shorten_alike_and_more_smoothly():
    film = load_scene("influence").run(seconds=1.2)
    assert film.metrics["shortening_spread"] <= 0.05
    assert film.metrics["roughness_0"] > film.metrics["roughness_1"] > film.metrics["roughness_2"]


def test_engell_53_distances_inside_the_body_keep_the_other_prong_still():
    parts = load_scene("fork").parts
    film = load_scene("fork").run(seconds=0.8)
    assert film.metrics["other_branch_share"] < 0.01
    straight = tuple(replace(spline, metric="euclidean") for spline in parts.splines)
    assert (
        SoftBodyScene("straight", replace(parts, splines=straight)).run(seconds=0.8).metrics["other_branch_share"]
        > 0.05
    )


SCA_LENGTH_M = 1.3
LETTERS = {  # heading at the start [deg], then (share of the length, turn [rad]); u runs to the right, w up the page
    "S": (120.0, ((0.06, 0.3), (0.40, 4.0), (0.08, 0.0), (0.40, -4.0), (0.06, -0.3))),
    "C": (115.0, ((0.12, 0.7), (0.76, 3.35), (0.12, 0.7))),
    "A": (68.0, ((0.27, 0.0), (0.19, -2.41), (0.235, 0.0), (0.155, -2.30), (0.15, 0.0))),
}


def drawn_letter(letter: str, count: int) -> np.ndarray:
    """Points ``(count, 2)`` of a letter drawn in one stroke, about its middle."""
    start, pieces = LETTERS[letter]
    s = (np.arange(2000) + 0.5) / 2000
    ends = np.cumsum([share for share, _ in pieces])
    bend = np.array([turn / share for share, turn in pieces])[np.minimum(np.searchsorted(ends, s), len(pieces) - 1)]
    heading = np.deg2rad(start) + np.cumsum(bend) / 2000
    way = np.cumsum(np.stack([np.cos(heading), np.sin(heading)], axis=1), axis=0) * SCA_LENGTH_M / 2000
    chosen = way[np.linspace(0, 1999, count).round().astype(int)]
    return chosen - chosen.mean(axis=0)


@pytest.mark.slow
def test_three_snakes_spell_s_c_a():
    spelling = load_scene("sca")
    film, muscles = spelling.run(), spelling.stage().muscles
    ends = np.cumsum([0, *(np.asarray(muscles.segment_counts) + 1)])
    points = muscles.points(film.positions[-1])
    lines = {name: points[a:b] for name, a, b in zip(muscles.names, ends[:-1], ends[1:], strict=True)}
    places = []
    for letter in LETTERS:
        middle = 0.5 * (lines[f"{letter} left"] + lines[f"{letter} right"])
        flat = middle[:, [2, 0]] - middle[:, [2, 0]].mean(axis=0)
        drawn = drawn_letter(letter, len(flat))
        turn = np.arctan2(np.sum(drawn[:, 0] * flat[:, 1] - drawn[:, 1] * flat[:, 0]), np.sum(drawn * flat))
        assert abs(np.rad2deg(turn)) < 8.0
        assert np.sqrt(np.sum((flat - drawn) ** 2, axis=1).mean()) < 0.06
        places.append(middle[:, 2].mean())
    assert places == sorted(places)  # S before C before A
    assert film.report["inverted_max"] == 0.0
