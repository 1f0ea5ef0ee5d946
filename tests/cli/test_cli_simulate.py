"""The verb `simulate`: a clip in, a figure that obeys physics out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from marey import samples
from marey.base import InputError
from marey.dynamics import Body
from marey.io import load, save
from marey.models import PGA
from marey.simulate import Ground, Push, Recorder, Simulator, forces_at

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def clip(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("clips") / "walk.safetensors"
    save(samples.walk(), path)
    return path


def facts_of(run, *arguments: object) -> dict:
    found = run("simulate", *arguments, "--json")
    assert found.code == 0, found.err
    return json.loads(found.out)


def test_a_drop_writes_motion_contacts_numbers_and_pictures(run, clip, tmp_path):
    out, csv, plot, strip = (tmp_path / name for name in ("o.safetensors", "o.csv", "o.png", "s.png"))
    options = ("-o", out, "--csv", csv, "--plot", plot, "--strip", strip, "--count", 3)
    facts = facts_of(run, clip, "--seconds", 0.6, *options)
    motion = load(out)
    assert motion.num_frames == facts["num_frames"] == 61
    assert motion.rate_hz == 100.0
    assert motion.contacts is not None
    assert not motion.contacts.active[0].any()  # it starts 5 cm above the ground
    assert motion.contacts.active[-1].any()
    lines = csv.read_text().splitlines()
    assert lines[0].startswith("time_s,kinetic_j,potential_j,linear_x")
    assert len(lines) == 61
    assert plot.read_bytes().startswith(PNG)
    assert strip.read_bytes().startswith(PNG)
    assert facts["num_dof"] == 21
    assert facts["peak_force_bw"] > 1.0


def test_a_figure_in_free_space_keeps_its_momenta_after_a_push(run, clip):
    push = "right_wrist:0,0,20@0+0.1"
    facts = facts_of(run, clip, "--mode", "free", "--push", push, "--seconds", 0.5, "--damping", "none")
    assert facts["pushes"] == [push]
    assert facts["angular_drift"] < 1e-10
    assert facts["linear_drift"] < 1e-10


def test_tournier_71_the_same_command_gives_the_same_bytes(run, clip, tmp_path):
    for name in ("a.bvh", "b.bvh"):
        given = ("--push", "pelvis:100@0.1+0.1", "--seed", 3, "--seconds", 0.3, "--csv", tmp_path / f"{name}.csv")
        assert run("simulate", clip, "-o", tmp_path / name, *given).code == 0
    assert (tmp_path / "a.bvh").read_bytes() == (tmp_path / "b.bvh").read_bytes()
    assert (tmp_path / "a.bvh.csv").read_bytes() == (tmp_path / "b.bvh.csv").read_bytes()


def test_a_push_without_a_direction_is_drawn_from_the_seed(run, clip):
    def force(seed: int) -> str:
        return facts_of(run, clip, "--push", "pelvis:100@0", "--seed", seed, "--seconds", 0.02)["pushes"][0]

    assert force(1) == force(1) != force(2)
    x, y, z = (float(part) for part in force(1).split(":")[1].split("@")[0].split(","))
    assert np.hypot(x, z) == pytest.approx(100.0, rel=1e-4)
    assert y == 0.0


@pytest.mark.parametrize("options", [("--full",), ("--modes", 5), ("--friction", "stick", "--slope", 10)])
def test_spaces_and_grounds_are_options(run, clip, options):
    facts = facts_of(run, clip, *options, "--seconds", 0.1)
    assert facts["num_dof"] == {"--full": 63, "--modes": 11}.get(options[0], 21)
    assert facts["deepest_mm"] < 2.0


def test_a_pose_model_of_a_file_is_taken(run, clip, tmp_path):
    PGA(n_components=7).fit([samples.walk()]).save(tmp_path / "m.safetensors")
    assert facts_of(run, clip, "--model", tmp_path / "m.safetensors", "--seconds", 0.05)["num_dof"] == 13


def test_a_moving_start_goes_on_as_the_clip_moves(run, clip):
    still, moving = (facts_of(run, clip, "--seconds", 0.1, "--start-s", 1, *o) for o in ((), ("--moving",)))
    ahead = [facts["com_m"][1][2] - facts["com_m"][0][2] for facts in (still, moving)]
    assert abs(ahead[0]) < 0.02
    assert ahead[1] == pytest.approx(0.09 * 1.3, rel=0.2)


def test_a_ball_that_hits_pushes_the_figure_back(run, clip):
    hit = facts_of(run, clip, "--seconds", 0.3, "--ball", "0,1.1,1:0,1,-15@0")
    missed = facts_of(run, clip, "--seconds", 0.3)
    assert hit["com_m"][1][2] < missed["com_m"][1][2] - 1e-3


def test_a_puppet_follows_its_strings_the_more_they_count(run, clip):
    errors = [
        facts_of(run, clip, "--mode", "puppet", "--alpha", alpha, "--seconds", 0.4)["mean_error_cm"]
        for alpha in (0.0, 0.99)
    ]
    assert errors[1] < 1.0 < errors[0]


def test_a_figure_balances_under_a_push(run, clip, tmp_path):
    out = tmp_path / "o.safetensors"
    facts = facts_of(run, clip, "--mode", "balance", "--seconds", 0.5, "--push", "spine3:0,0,20@0.1+0.1", "-o", out)
    assert facts["fall"] is None
    assert facts["carried_bw"] == pytest.approx(1.0, abs=0.2)
    assert load(out).num_frames == 51


def test_a_figure_tracks_a_clip(run, clip):
    facts = facts_of(run, clip, "--mode", "track", "--seconds", 0.3)
    assert facts["mean_error_cm"] < 10.0
    assert facts["num_frames"] == 31


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--mode", "sit"), "there is no mode 'sit'"),
        (("--integrator", "euler"), "no integrator 'euler'"),
        (("--full", "--modes", 3), "give one of --model, --modes and --full"),
        (("-o", "out.exe"), "cannot write 'out.exe'"),
        (("--csv", "out.txt"), "cannot write 'out.txt'"),
        (("--strip", "none/s.png"), "there is no folder 'none'"),
        (("--step-s", 0.0), "--step-s"),
        (("--step-s", "nan"), "--step-s"),
        (("--mode", "track", "--step-s", 1e3), "--step-s"),
        (("--seconds", "nan"), "--seconds"),
        (("--mode", "puppet", "--alpha", "nan"), "--alpha"),
        (("--mass-kg", 0.0), "--mass-kg"),
    ],
)
def test_wrong_usage_is_told_before_any_work(run, clip, options, words):
    found = run("simulate", clip, *options)
    assert found.code == 2
    assert words in found.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--push", "pelvis:1,2@0"), "push 'pelvis:1,2@0'. Write JOINT:FX,FY,FZ@START"),
        (("--push", "pelvis:1,2,nan@0+1"), "push 'pelvis:1,2,nan@0+1'"),
        (("--push", "tail:1,2,3@0+1"), "no joint 'tail'"),
        (("--push", "pelvis:1,2,3@0+0"), "a push lasts 0.0 s"),
        (("--ball", "1,2,3"), "ball '1,2,3'. Write X,Y,Z:VX"),
        (("--friction", "ice"), "friction 'ice'"),
        (("--friction=-1",), "mu is -1.0"),
        (("--damping", "thick"), "no damping 'thick'"),
        (("--damping", "energetic:x"), "damping 'x'"),
        (("--limits", "none.safetensors"), "none.safetensors"),
        (("--model", "none.safetensors"), "none.safetensors"),
        (("--start-s", 99), "start at 99 s"),
        (("--damping", "uniform:nan"), "the damping rate is nan"),
        (("--friction", "nan"), "mu is nan"),
        (("--ball", "0,1,0:nan,0,0@0"), "ball '0,1,0:nan,0,0@0'"),
        (("--push", "pelvis:0,0,1e300@0+0.1"), "the simulation is unstable at 0.000 s"),
    ],
)
def test_bad_input_is_one_line(run, clip, options, words):
    found = run("simulate", clip, *options)
    assert found.code == 1
    assert words in found.err
    assert len(found.err.strip().splitlines()) == 1
    assert not found.out


# Pushes and recordings


def test_a_push_gives_all_its_impulse_whatever_the_steps():
    push = Push("pelvis", (0.0, 0.0, 20.0), 0.033, 0.1, every_s=0.5)
    for dt in (0.1, 0.01, 0.007):
        total = sum(dt * f.force_n[2] for n in range(round(2.0 / dt)) for f in forces_at([push], n * dt, dt))
        assert total == pytest.approx(4 * 2.0, rel=1e-9)


def test_a_push_reads_as_it_is_written():
    text = "left_knee:1,-2,3.5@0.25+0.05/2"
    assert str(Push.from_text(text)) == text
    with pytest.raises(InputError, match="without a direction"):
        Push.from_text("left_knee:5@0+1")
    with pytest.raises(InputError, match="comes again every"):
        Push("left_knee", (1, 2, 3), 0.0, 1.0, every_s=0.5)


def test_a_recording_is_even_and_bears_the_weight():
    walk = samples.walk()
    simulator = Simulator(Body.from_motion(walk), ground=Ground(), damping="energetic", damping_rate=20.0)
    recorder = Recorder(simulator)
    with pytest.raises(InputError, match="nothing was recorded"):
        recorder.motion()
    before = simulator.body.mass_kg * simulator.state.velocity[3:6]
    for _ in range(30):
        simulator.step(0.01)
        recorder.record()
    change = simulator.body.mass_kg * simulator.state.velocity[3:6] - before
    weight = np.array([0.0, -0.3 * simulator.body.weight_n, 0.0])
    np.testing.assert_allclose(0.01 * recorder.forces.sum(axis=0) + weight, change, atol=1e-6)
    simulator.step(0.02)
    recorder.record()
    with pytest.raises(InputError, match="differ in length"):
        recorder.motion()
