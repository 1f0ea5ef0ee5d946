"""The command: exit codes, what goes to stdout and what to stderr, and the verbs over files."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import marey
from marey import samples
from marey.io import load, save

VERBS = (
    "info",
    "convert",
    "contacts",
    "retarget",
    "physics",
    "optimize",
    "simulate",
    "muscle",
    "strip",
    "film",
    "plot",
    "studio",
    "demo",
    "bench",
    "cite",
)
INFO_KEYS = {"num_joints", "num_frames", "rate_hz", "duration_s", "height_m", "mean_speed_mps", "warnings"}


@pytest.fixture(scope="module")
def walk(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("clips") / "walk.bvh"
    save(samples.walk(seconds=2.0), path)
    return path


def test_help_names_every_verb(run):
    result = run("--help")
    assert result.code == 0
    for verb in [
        "info",
        "convert",
        "contacts",
        "retarget",
        "library",
        "strip",
        "film",
        "plot",
        "studio",
        "demo",
        "bench",
        "cite",
    ]:
        assert re.search(rf"^  {verb} ", result.out, re.MULTILINE)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(run, verb):
    result = run(verb, "--help")
    assert result.code == 0
    assert "Usage: marey " + verb in result.out


def test_no_verb_shows_the_help(run):
    result = run()
    assert "Usage" in result.out + result.err


def test_version_is_the_packages(run):
    assert run("--version").out == f"marey {marey.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["info"], ["info", "--nonsense", "x"], ["strip", "x.bvh"], ["convert", "x.bvh"], ["library", "add"]],
)
def test_wrong_usage_is_one_line_and_exit_code_2(run, arguments):
    result = run(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert re.fullmatch(r"marey: .+--help\n", result.err)


def test_a_missing_file_is_one_line_and_exit_code_1(run):
    result = run("info", "nowhere.bvh")
    assert (result.code, result.out) == (1, "")
    assert result.err == "marey: no file or folder 'nowhere.bvh'. Check the path.\n"


def test_debug_shows_the_traceback_wherever_it_stands(run):
    for arguments in (("--debug", "info", "nowhere.bvh"), ("info", "nowhere.bvh", "--debug")):
        result = run(*arguments)
        assert result.code == 1
        assert "Traceback" in result.err
        assert result.err.endswith("marey: no file or folder 'nowhere.bvh'. Check the path.\n")


def test_a_broken_file_names_its_line(run, tmp_path):
    bad = tmp_path / "bad.bvh"
    bad.write_text("HIERARCHY\nROOT a\n{\n")
    result = run("info", bad)
    assert result.code == 1
    assert re.fullmatch(rf"marey: {re.escape(str(bad))}:\d+: .+\n", result.err)


def test_info_prints_one_line_a_file(run, walk):
    result = run("info", walk)
    assert result.code == 0
    facts = r"  22 joints  120 frames  60 Hz  1\.98 s  height 1\.7\d m  1\.\d\d m/s  Y up  .*\n"
    assert re.fullmatch(re.escape(str(walk)) + facts, result.out)


def test_info_as_json_has_the_promised_keys(run, walk):
    facts = json.loads(run("info", walk, "--json").out)
    assert set(facts) >= INFO_KEYS
    assert (facts["num_joints"], facts["num_frames"], facts["rate_hz"]) == (22, 120, 60.0)
    assert facts["mean_speed_mps"] == pytest.approx(1.3, abs=0.05)
    assert isinstance(facts["warnings"], list)


def test_info_of_several_files_is_json_lines_and_goes_on_after_a_bad_one(run, walk, tmp_path):
    bad = tmp_path / "bad.bvh"
    bad.write_bytes(b"\x00" * 10)
    result = run("info", walk, bad, walk, "--json")
    assert result.code == 1
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert [line["file"] for line in lines] == [str(walk), str(bad), str(walk)]
    assert ["error" in line for line in lines] == [False, True, False]
    assert "bad.bvh" in result.err


def test_info_overrides_the_rate(run, walk):
    assert json.loads(run("info", walk, "--json", "--read-rate-hz", 30).out)["rate_hz"] == 30.0


def test_info_reads_stdin(run, walk, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(walk.read_bytes())))
    facts = json.loads(run("info", "-", "--json").out)
    assert (facts["num_frames"], facts["file"]) == (120, "-")


@pytest.mark.parametrize("suffix", ["bvh", "glb", "safetensors"])
def test_stdin_is_recognised_by_its_content(run, walk, monkeypatch, tmp_path, suffix):
    path = tmp_path / f"clip.{suffix}"
    save(load(walk), path)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(path.read_bytes())))
    assert json.loads(run("info", "-", "--json").out)["num_frames"] == 120


@pytest.mark.mocap
@pytest.mark.parametrize("name", ["walking5.c3d", "markers_walk.trc"])
def test_info_of_markers_counts_markers(run, mocap, name):
    facts = json.loads(run("info", mocap / "opensim" / name, "--json").out)
    assert set(facts) >= INFO_KEYS
    assert facts["num_markers"] >= 40


@pytest.mark.mocap
def test_info_warns_of_a_wrong_frame_rate(run, mocap):
    result = run("info", mocap / "cmu-bvh" / "88_05.bvh")
    assert result.code == 0
    assert "60" in result.err
    assert result.err.startswith("marey: ")


def test_convert_resamples_cuts_and_mirrors(run, walk, tmp_path):
    out = tmp_path / "out.safetensors"
    result = run("convert", walk, out, "--rate-hz", 30, "--start", 0.5, "--stop", 1.5, "--mirror")
    assert (result.code, result.out) == (0, "")
    motion = load(out)
    assert (motion.num_frames, motion.rate_hz) == (31, 30.0)
    source = load(walk)
    left, right = source.skeleton.index("left_wrist"), source.skeleton.index("right_wrist")
    here, there = motion.joint_positions()[0, right], source.joint_positions()[30, left]
    np.testing.assert_allclose(here * [-1, 1, 1], there, atol=0.02)


def test_convert_writes_many_files_into_a_folder(run, walk, tmp_path):
    other = tmp_path / "other.bvh"
    save(load(walk)[:10], other)
    result = run("convert", walk, other, tmp_path / "out", "--format", "glb")
    assert result.code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["other.glb", "walk.glb"]


def test_convert_keeps_going_after_a_bad_file(run, walk, tmp_path):
    bad = tmp_path / "bad.bvh"
    bad.write_text("no")
    result = run("convert", bad, walk, tmp_path / "out", "--format", "bvh")
    assert result.code == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["walk.bvh"]


def test_convert_refuses_to_write_two_inputs_to_one_file(run, walk, tmp_path):
    assert run("convert", walk, walk, tmp_path / "out", "--format", "bvh").code == 2


def test_convert_to_a_folder_needs_a_format(run, walk, tmp_path):
    result = run("convert", walk, tmp_path)
    assert result.code == 2
    assert "--format" in result.err


def test_convert_writes_to_stdout(run, walk):
    result = run("convert", walk, "-", "--format", "bvh")
    assert result.code == 0
    assert result.out.startswith("HIERARCHY")


def test_convert_cannot_cut_what_is_not_there(run, walk, tmp_path):
    result = run("convert", walk, tmp_path / "out.bvh", "--start", 10)
    assert result.code == 1
    assert "It lasts 1.98 s" in result.err


def test_contacts_lists_the_phases_of_a_walk(run, walk):
    facts = json.loads(run("contacts", walk, "--json").out)
    kinds = {phase["kind"] for phase in facts["phases"]}
    assert kinds == {"left", "right", "double"}
    assert facts["phases"][0]["start"] == 0
    assert facts["phases"][-1]["stop"] == facts["num_frames"]
    assert len(run("contacts", walk).out.splitlines()) == len(facts["phases"])


def test_contacts_plots(run, walk, tmp_path):
    assert run("contacts", walk, "-o", tmp_path / "plot.png").code == 0
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_retarget_moves_to_the_canonical_human(run, walk, tmp_path):
    assert run("retarget", walk, "-o", tmp_path / "human.safetensors").code == 0
    assert load(tmp_path / "human.safetensors").skeleton.names == marey.HUMAN.names


def test_strip_and_plot_write_pictures(run, walk, tmp_path):
    assert run("strip", walk, "-o", tmp_path / "strip.png", "--count", 3, "--width", 320).code == 0
    assert run("plot", walk, "-o", tmp_path / "plot.png", "--joint", "left_knee").code == 0
    for name in ("strip.png", "plot.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_an_unknown_joint_is_named_with_the_nearest(run, walk, tmp_path):
    result = run("plot", walk, "-o", tmp_path / "plot.png", "--joint", "left_kne")
    assert result.code == 1
    assert "left_knee" in result.err


def test_film_writes_a_film(run, walk, tmp_path):
    short = tmp_path / "short.bvh"
    save(load(walk)[:8], short)
    assert run("film", short, "-o", tmp_path / "film.gif", "--fps", 10).code == 0
    assert (tmp_path / "film.gif").read_bytes().startswith(b"GIF8")


def test_demo_writes_motion_picture_and_report(run, tmp_path):
    result = run("demo", "-o", tmp_path / "demo", "--sample", "walk")
    assert result.code == 0
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {"walk.glb", "walk.bvh", "strip.png", "report.txt"}
    report = (tmp_path / "demo" / "report.txt").read_text()
    assert report == result.out
    assert "22 joints, 240 frames at 60 Hz" in report
    assert load(tmp_path / "demo" / "walk.bvh").num_frames == 240


def test_bench_runs_the_checkouts_benchmarks(run, monkeypatch, tmp_path):
    fake = tmp_path / "marey" / "__init__.py"
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "run.py").write_text("def main(names):\n    print('ran', names)\n    return 0\n")
    monkeypatch.setattr(marey, "__file__", str(fake))
    assert run("bench", "read").out == "ran ['read']\n"
    (tmp_path / "benchmarks" / "run.py").unlink()
    result = run("bench")
    assert result.code == 1
    assert "make bench" in result.err


def test_a_missing_extra_is_one_clear_sentence(run, monkeypatch):
    def absent(*_: object, **__: object) -> None:
        raise marey.base.MissingExtraError("the studio", "studio")

    monkeypatch.setattr("marey.studio.serve_project", absent)
    result = run("studio")
    assert result.code == 1
    assert result.err == "marey: the studio needs the extra 'studio'. Install it: pip install 'marey[studio]'\n"


def test_studio_hands_its_options_on(run, monkeypatch):
    seen = {}
    monkeypatch.setattr("marey.studio.serve_project", lambda *paths, **options: seen.update(paths=paths, **options))
    assert run("studio", "a.bvh", "folder", "--port", 0, "--no-open").code == 0
    assert seen.pop("tell") is not None
    assert seen == {
        "paths": ("folder", ["a.bvh"]),
        "host": "127.0.0.1",
        "port": 0,
        "allow_remote": False,
        "open_browser": False,
        "max_upload_mb": 512,
    }


def test_an_unexpected_error_asks_for_a_report(run, monkeypatch, walk):
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("boom\nand more")

    monkeypatch.setattr("marey.io.load", broken)
    result = run("info", walk)
    assert result.code == 1
    assert result.err == "marey: unexpected RuntimeError: boom and more (run again with --debug, and report it)\n"


def test_ctrl_c_ends_with_130(tmp_path):
    script = tmp_path / "slow.py"
    script.write_text(
        "import signal, sys, time, marey.studio\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell has it ignored\n"
        "def serve_project(*a, **k):\n    print('up', flush=True)\n    time.sleep(60)\n"
        "marey.studio.serve_project = serve_project\n"
        "from marey.cli import main\nsys.exit(main(['studio']))\n"
    )
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=50)
    assert (process.returncode, err) == (130, "marey: stopped\n")


def test_a_reader_that_leaves_early_does_no_harm(walk):
    command = [sys.executable, "-m", "marey", "info", *[str(walk)] * 3, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    process.stderr.close()
    assert "Traceback" not in err
    assert process.wait(20) == 1


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from marey.cli import main; main(['--help']); "
        "print([m for m in ('numpy', 'numba', 'scipy', 'rich', 'matplotlib', 'starlette') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.real
def test_fit_markers_reports_each_marker_what_it_left_out_and_the_belt(run, real, tmp_path):
    trial = real / "addbiomechanics" / "Hamner2013Running" / "subject02" / "run300" / "markers.trc"
    facts = json.loads(run("fit-markers", trial, "-o", tmp_path / "run.glb", "--json").out)
    assert facts["belt_mps"] == pytest.approx(3.0, rel=0.05)
    assert facts["rms_mm"] < 10.0 and max(facts["marker_rms_mm"].values()) < 60.0
    assert facts["mass_kg"] > 40.0 and facts["height_m"] == pytest.approx(1.82, rel=0.05)
    assert facts["start_s"] > 0.0 and (tmp_path / "run.glb").exists()


@pytest.mark.real
def test_info_counts_plates_channels_and_muscles(run, real):
    facts = json.loads(run("info", real / "btk-c3d" / "PiG_Motion3_FF.c3d", "--json").out)
    assert facts["plate_types"] == [2, 2, 2] and len(facts["analog"]) == 34
    assert len(facts["muscles"]) == 16 and facts["start_s"] == pytest.approx(7.24)
