"""A command of one kind: a line for each input, tables, exit codes, remarks that can be silenced, checked outputs."""

from __future__ import annotations

import csv
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from oracles.stiff_walk import make_stiff_walk
from typer.testing import CliRunner

from marey import samples
from marey.cli.common import round_numbers
from marey.cli.options import flat_options
from marey.io import load, save


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Three clips with awkward names, two files that cannot be read, and one that is no motion at all."""
    home = tmp_path_factory.mktemp("clips")
    for number, name in enumerate(("one.bvh", "zwei mit Länge.safetensors", "三.glb")):
        save(samples.walk(seconds=0.6 + 0.1 * number, rate_hz=30.0), home / name)
    (home / "cut.bvh").write_text("HIERARCHY\nROOT a\n{\n")
    (home / "empty.glb").write_bytes(b"")
    (home / "scene.blend").write_bytes(b"Kaydara")
    return home


def lines_of(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("verb", ["info", "contacts", "physics"])
def test_every_file_that_is_named_gives_one_json_line(run, folder, verb):
    files = sorted(folder.iterdir())
    result = run(verb, *files, "--json")
    found = lines_of(result.out)
    assert result.code == 1
    assert [line["file"] for line in found] == [str(file) for file in files]
    assert {Path(line["file"]).name for line in found if "error" in line} == {"cut.bvh", "empty.glb", "scene.blend"}


@pytest.mark.parametrize("verb", ["plant", "retarget", "compress", "convert"])
def test_verbs_that_write_give_one_json_line_and_one_file_each(run, folder, tmp_path, verb):
    files = sorted(folder.iterdir())
    target = [tmp_path / "out", "--format", "bvh"] if verb == "convert" else ["-o", tmp_path / "out"]
    result = run(verb, *files, *target, "--json")
    found = lines_of(result.out)
    assert result.code == 1
    assert len(found) == len(files) == 6
    written = {Path(line["out"]).name for line in found if "error" not in line}
    assert written == {path.name for path in (tmp_path / "out").iterdir()}
    assert len(written) == 3


def test_a_single_file_that_fails_has_its_json_line_too(run, folder):
    result = run("physics", folder / "cut.bvh", "--json")
    assert result.code == 1
    assert "cut.bvh" in lines_of(result.out)[0]["error"]
    assert result.err.count("\n") == 1


def test_a_folder_is_read_and_what_is_not_read_is_counted(run, folder):
    result = run("info", folder, "--json")
    assert len(lines_of(result.out)) == 5
    assert "1 files are not read (.blend)" in result.err


def test_tables_have_a_row_for_each_clip_phase_or_frame(run, folder, tmp_path):
    clips = [folder / "one.bvh", folder / "三.glb"]

    def rows(*arguments: object) -> list[dict]:
        assert run(*arguments, "--csv", tmp_path / "t.csv").code == 0
        with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))

    verdicts = rows("physics", *clips)
    assert [row["file"] for row in verdicts] == [str(clip) for clip in clips]
    assert all(0.0 <= float(row["valid_fraction"]) <= 1.0 for row in verdicts)
    frames = rows("physics", clips[0], "--frames")
    assert len(frames) == load(clips[0]).num_frames
    assert {"time_s", "status", "violation"} <= set(frames[0])
    phases = rows("contacts", *clips)
    assert {row["kind"] for row in phases} <= {"left", "right", "double", "flight"}
    assert rows("info", *clips)[0]["num_joints"] == "22"


def test_a_failure_is_a_row_of_the_table_too(run, folder, tmp_path):
    run("info", folder / "cut.bvh", folder / "one.bvh", "--csv", tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as stream:
        first, second = csv.DictReader(stream)
    assert "cut.bvh" in first["error"]
    assert (second["error"], second["num_joints"]) == ("", "22")


def test_pictures_of_several_clips_go_to_a_folder(run, folder, tmp_path):
    assert run("contacts", folder / "one.bvh", folder / "三.glb", "-o", tmp_path / "p").code == 0
    assert {path.name for path in (tmp_path / "p").iterdir()} == {"one.png", "三.png"}


def test_inputs_with_one_name_keep_their_folders_or_their_suffix(run, tmp_path):
    walk = samples.walk(seconds=0.5, rate_hz=30.0)
    for name in ("anna/take.bvh", "anna/take.glb", "ben/take.bvh"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        save(walk, tmp_path / "in" / name)
    assert run("convert", tmp_path / "in", tmp_path / "out", "--format", "bvh").code == 0
    written = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.bvh")}
    assert written == {"anna/take-bvh.bvh", "anna/take-glb.bvh", "ben/take.bvh"}


def test_finished_conversions_can_be_skipped(run, folder, tmp_path):
    arguments = ("convert", folder / "one.bvh", tmp_path / "o.glb", "--skip-existing", "--json")
    assert "skipped" not in lines_of(run(*arguments).out)[0]
    assert lines_of(run(*arguments).out)[0]["skipped"]


def test_quiet_silences_remarks_but_not_warnings_and_errors(run, folder, tmp_path):
    assert run("convert", folder / "one.bvh", tmp_path / "a.glb", "--quiet").err == ""
    assert "wrote" in run("convert", folder / "one.bvh", tmp_path / "a.glb").err
    assert "no file" in run("--quiet", "info", "nowhere.bvh").err
    assert "not read" in run("info", folder, "--quiet").err


def test_verbose_adds_times(run, folder):
    err = run("info", folder / "one.bvh", "--verbose").err
    assert "one.bvh: 0." in err
    assert "s in all" in err
    assert logging.getLogger("marey").level == logging.DEBUG


@pytest.fixture
def red(tmp_path) -> Path:
    """A walk that no body could make."""
    save(make_stiff_walk(), tmp_path / "red.safetensors")
    return tmp_path / "red.safetensors"


def test_a_motion_that_must_be_valid_and_is_not_ends_with_one(run, red):
    assert run("physics", red).code == 0
    strict = run("physics", red, "--require-valid", "--json")
    assert strict.code == 1
    assert lines_of(strict.out)[0]["valid"] is False
    assert "green" in strict.err


def test_plant_says_what_physics_thinks_when_asked(run, red, tmp_path):
    result = run("plant", red, "-o", tmp_path / "w.bvh", "--require-valid", "--json")
    assert result.code == 1
    assert lines_of(result.out)[0]["valid_fraction"] < 0.8
    assert "physically valid" in result.err
    assert (tmp_path / "w.bvh").is_file()


@pytest.mark.parametrize(
    "arguments",
    [
        ["contacts", "walk", "--method", "foo"],
        ["plant", "walk", "-o", "x.xyz"],
        ["ik", "--task", "right_wrist=0,1"],
        ["film", "walk", "-o", "x.avi"],
        ["strip", "walk", "-o", "none/x.png"],
        ["simulate", "walk", "--mode", "tracc"],
        ["synth", "pick", "-o", "x.xyz"],
        ["retarget", "walk", "-o", "x.blend"],
        ["convert", "walk", "x.blend"],
        ["physics", "walk", "--floor", "ceiling"],
        ["fit", "walk", "-o", "model.bin"],
        ["graph", "build", "walk", "-o", "my.graph"],
        ["limits", "fit", "walk", "-o", "limits.toml"],
        ["walk", "stroll", "--save", "s.xml"],
        ["muscle", "snake", "-o", "film.xyz"],
        ["edit", "walk", "--move", "right_hand@1=0,0.1,0", "--method", "magic"],
    ],
)
def test_a_value_or_output_that_cannot_be_is_wrong_usage_in_every_verb(run, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("marey: ") and result.err.count("\n") == 1
    assert "--help" in result.err and "?." not in result.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to_is_refused_before_the_work(run, tmp_path):
    (tmp_path / "ro").mkdir(mode=0o500)
    result = run("plant", "walk", "-o", tmp_path / "ro" / "x.bvh")
    assert result.code == 2
    assert "may not write" in result.err


def test_shipped_names_stand_wherever_a_path_does(run, tmp_path):
    assert lines_of(run("info", "walk", "jump", "--json").out)[1]["name"] == "jump"
    near = run("walk", "stroll.toml")
    assert near.code == 1
    assert "ships with marey" in near.err


def test_numbers_in_messages_are_rounded():
    assert round_numbers("no run-up ends at (0.43497160011383734, 5.977599399601556)") == (
        "no run-up ends at (0.435, 5.978)"
    )
    assert round_numbers("in clip-0.1234567.bvh:12 1.25") == "in clip-0.1234567.bvh:12 1.25"


@dataclass(frozen=True, kw_only=True)
class Group:
    size: Annotated[int, typer.Option("--how-large", min=1)] = 3
    name: str = "none"


def test_a_group_of_options_becomes_options_in_its_place():
    seen = []

    @flat_options
    def verb(first: str, *, group: Group, last: bool = False) -> None:
        seen.append((first, group, last))

    app = typer.Typer()
    app.command()(verb)
    runner = CliRunner()
    assert runner.invoke(app, ["a", "--how-large", "5", "--last"]).exit_code == 0
    assert runner.invoke(app, ["b", "--name", "x"]).exit_code == 0
    assert runner.invoke(app, ["c", "--how-large", "0"]).exit_code == 2
    assert seen == [("a", Group(size=5), True), ("b", Group(name="x"), False)]
