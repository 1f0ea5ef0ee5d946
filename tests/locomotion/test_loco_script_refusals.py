"""Bad input to the public names of locomotion: each ends in the documented error or clamp (A50)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marey.base import FormatError, InputError, MareyError, MareyWarning, MissingFileError, UnknownNameError
from marey.locomotion import Engine, LocomotionModel, load_model, load_script
from marey.locomotion.planning.speed_profile import FrequencyTable, plan_profile

BAD = (float("nan"), float("inf"), -float("inf"))
DT = 1.0 / 60.0


@pytest.fixture(scope="module")
def model() -> LocomotionModel:
    return load_model()


def stepped(engine: Engine, seconds: float = 0.5) -> None:
    """Go on for a while; no pose may have a NaN."""
    for _ in range(round(seconds / DT)):
        pose = engine.step(DT)
        assert np.isfinite(pose.root_position).all()
        assert np.isfinite(pose.rotations.wxyz).all()


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("key", ["speed", "run", "turn_rate", "leg_length_m", "over_s"])
def test_glardon_a50_numbers_that_are_none_are_refused_and_harm_nothing(model, key, bad):
    engine = Engine(model, speed=1.2)
    with pytest.raises(InputError, match=key):
        engine.set(**{key: bad})
    assert engine.parameters.speed == pytest.approx(1.2)
    stepped(engine)


def test_glardon_a50_a_speed_below_zero_stands_still_with_a_warning(model):
    engine = Engine(model)
    with pytest.warns(MareyWarning, match="speed"):
        engine.set(speed=-1.0)
    stepped(engine)
    assert engine.speed == 0.0


@pytest.mark.parametrize(("given", "held"), [(-0.5, 0.0), (1.5, 1.0)])
def test_glardon_a50_walk_or_run_is_held_between_both(model, given, held):
    engine = Engine(model, speed=1.5)
    with pytest.warns(MareyWarning, match="run"):
        engine.set(run=given)
    stepped(engine)
    assert engine.parameters.run == held


@pytest.mark.parametrize("run", [0.0, 1.0])
def test_glardon_a50_a_speed_beyond_the_model_is_held_with_a_warning(model, run):
    engine = Engine(model, speed=1.5, run=run)
    with pytest.warns(MareyWarning, match="speed"):
        engine.set(speed=50.0)
    stepped(engine)
    assert 1.5 < engine.speed < 12.0


@pytest.mark.parametrize("weight", [-1.0, float("nan"), 0.0, None])
def test_glardon_a50_style_weights_that_are_no_mixture_are_refused(model, weight):
    weights = {} if weight is None else {model.styles[0]: weight}
    engine = Engine(model)
    with pytest.raises(InputError):
        engine.set(style=weights)
    with pytest.raises(InputError):
        Engine(model, style=weights)
    stepped(engine)


def test_glardon_a50_style_weights_are_normalised(model):
    one, two = model.styles[:2]
    a, b = Engine(model, speed=1.2, style={one: 1.4, two: 0.7}), Engine(model, speed=1.2, style={one: 2.0, two: 1.0})
    np.testing.assert_allclose(a.step(DT).rotations.wxyz, b.step(DT).rotations.wxyz, atol=1e-12)


def test_glardon_a50_an_unknown_style_is_refused_with_the_names_there_are(model):
    with pytest.raises(UnknownNameError, match=model.styles[0]):
        Engine(model, style="nobody")
    with pytest.raises(UnknownNameError):
        Engine(model).set(style={"nobody": 1.0})


def test_glardon_a50_a_style_without_a_gait_shows_the_one_it_has(model):
    for style in model.styles:
        for run, speed in ((0.0, 1.2), (1.0, 2.8)):
            engine = Engine(model, speed=speed, run=run, style=style)
            stepped(engine, 0.3)
            assert engine.position[1] > 0.1


@pytest.mark.parametrize("bad", [*BAD, -1e-3])
def test_glardon_a50_time_does_not_run_backwards(model, bad):
    engine = Engine(model, speed=1.2)
    for call in (engine.step, engine.predict):
        with pytest.raises(InputError):
            call(bad)
    with pytest.raises(InputError):
        engine.run(bad)
    with pytest.raises(InputError):
        engine.run(1.0, rate_hz=bad)
    stepped(engine)


def test_glardon_a50_a_long_step_is_taken_in_short_ones(model):
    long, short = (Engine(model, speed=1.2, turn_rate=0.5) for _ in range(2))
    far = long.step(1.0)
    for _ in range(60):
        near = short.step(DT)
    np.testing.assert_allclose(far.root_position, near.root_position, atol=5e-3)


@pytest.mark.parametrize("bad", [*BAD, 0.0, -0.9])
def test_glardon_a50_legs_without_length_are_refused(model, bad):
    with pytest.raises(InputError):
        Engine(model, leg_length_m=bad)
    with pytest.raises(InputError):
        Engine(model, size=bad)


@pytest.mark.parametrize("options", [{"scaling": "odd"}, {"timing": "odd"}, {"ik": "odd"}])
def test_glardon_a50_methods_that_do_not_exist_are_refused(model, options):
    with pytest.raises(MareyError, match="odd"):
        Engine(model, **options)


@pytest.mark.parametrize("options", [{"position": (np.nan, 0.0)}, {"heading_rad": np.inf}, {"speed": np.nan}])
def test_glardon_a50_an_engine_that_starts_nowhere_is_refused(model, options):
    with pytest.raises(InputError):
        Engine(model, **options)


@pytest.mark.parametrize("bad", [*BAD, 0.0, -1.0])
@pytest.mark.parametrize("kind", ["walk", "run", "standing"])
def test_glardon_a50_jumps_of_no_length_are_refused(model, kind, bad):
    engine = Engine(model, speed=1.2)
    with pytest.raises(InputError):
        engine.jump(length_m=bad, kind=kind)
    stepped(engine)


@pytest.mark.parametrize("kind", ["walk", "run", "standing"])
def test_glardon_a50_jumps_longer_than_the_model_knows_are_held_or_refused(model, kind):
    engine = Engine(model, speed=1.2)
    try:
        with pytest.warns(MareyWarning, match="jump"):
            engine.jump(length_m=30.0, kind=kind)
    except InputError as error:
        held = str(error)
    else:
        held = ""
        stepped(engine, 8.0)
        assert engine.position[1] < 25.0
    assert "30" in held or not held


def test_glardon_a50_jumps_of_an_unknown_kind_or_priority_are_refused(model):
    engine = Engine(model, speed=1.2)
    with pytest.raises(MareyError, match="hop"):
        engine.jump(length_m=1.0, kind="hop")
    with pytest.raises(MareyError, match="soon"):
        engine.jump(length_m=1.0, kind="walk", priority="soon")
    with pytest.raises(InputError):
        engine.jump(length_m=1.0, kind="walk", takeoff=(np.nan, 1.0))


def test_glardon_a50_files_that_are_no_models_are_refused(model, tmp_path: Path):
    with pytest.raises(MissingFileError):
        load_model(tmp_path / "none.safetensors")
    for number, data in enumerate((b"", b"\x00" * 100, b"PK\x03\x04", b"\xff" * 4096)):
        file = tmp_path / f"{number}.safetensors"
        file.write_bytes(data)
        with pytest.raises(FormatError, match=file.name):
            load_model(file)


def test_glardon_a50_a_damaged_model_is_refused(model, tmp_path: Path):
    whole = tmp_path / "model.safetensors"
    model.save(whole)
    data = whole.read_bytes()
    cut = tmp_path / "cut.safetensors"
    for length in (10, 200, len(data) // 2, len(data) - 1):
        cut.write_bytes(data[:length])
        with pytest.raises(FormatError, match=cut.name):
            load_model(cut)


def test_glardon_a50_a_script_that_is_no_script_is_refused_with_a_line(tmp_path: Path):
    file = tmp_path / "bad.xml"
    file.write_text("<animationGenerator>\n<dance/></animationGenerator>", encoding="utf-8")
    with pytest.raises(FormatError, match=r"bad\.xml:2: unknown tag <dance>"):
        load_script(file)


@pytest.mark.parametrize("bad", BAD)
def test_glardon_a50_profiles_of_no_number_are_refused(model, bad):
    table = FrequencyTable(*Engine(model, speed=1.1).frequency_table())
    with pytest.raises(InputError):
        plan_profile(table, bad, 1.0, 5.0, 0.0)
    with pytest.raises(InputError):
        plan_profile(table, 1.0, 1.0, bad, 0.0)


def test_glardon_a50_a_profile_over_no_distance_is_not_feasible(model):
    table = FrequencyTable(*Engine(model, speed=1.1).frequency_table())
    for distance in (0.0, -1.0):
        assert plan_profile(table, 1.1, 1.1, distance, 0.2).status != "ok"


def test_glardon_a50_plants_are_refused_where_there_are_no_legs(model):
    from marey.contacts import hold_feet
    from marey.lie import SO3
    from marey.motion import Motion
    from marey.skeleton import Skeleton

    stick = Skeleton(("a", "b"), np.array([-1, 0]), np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
    motion = Motion(stick, 30.0, np.zeros((10, 3)), SO3.identity(10, 2))
    with pytest.raises(MareyError):
        hold_feet(motion)
