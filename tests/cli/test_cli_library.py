"""`marey library` from the outside."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from marey import samples
from marey.cli import main
from marey.io import save


@pytest.fixture(scope="module")
def clips(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("clips")
    save(samples.walk(seconds=1.5), folder / "07_01.bvh")
    save(samples.run(seconds=1.0), folder / "09_01.bvh")
    save(samples.walk(seconds=1.5), folder / "again.bvh")
    (folder / "notes.txt").write_text("not a clip")
    return folder


@pytest.fixture
def run(capfd, tmp_path, monkeypatch):
    monkeypatch.setenv("MAREY_LIBRARY", str(tmp_path / "library"))

    def do(*arguments: object) -> SimpleNamespace:
        capfd.readouterr()
        code = main(["library", *(str(argument) for argument in arguments)])
        out, err = capfd.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return do


def test_a_folder_is_added_listed_shown_verified_and_removed(run, clips):
    added = run("add", clips, "--tag", "shipped", "-t", "made")
    assert added.code == 0
    assert added.out.endswith("2 added, 1 duplicates, 0 unchanged, 0 failed, 1 skipped\n")
    assert "again.bvh: the same motion as clip" in added.err

    lines = run("list").out.splitlines()
    assert len(lines) == 2
    assert "07_01" in lines[0] and "walk" in lines[0] and "#made #shipped" in lines[0]

    facts = json.loads(run("show", "09_01", "--json").out)
    assert (facts["behaviour"], facts["subject"], facts["tags"]) == ("run", "9", ["made", "shipped"])
    assert Path(facts["path"]).is_file()
    assert "mean_speed_mps" in run("show", "09_01").out

    assert run("verify").out.endswith("2 clips, all whole\n")
    assert run("remove", "09_01").out.startswith("removed ")
    assert len(run("list").out.splitlines()) == 1
    assert run("add", clips).out.endswith("1 added, 0 duplicates, 2 unchanged, 0 failed, 1 skipped\n")


def test_list_takes_conditions(run, clips):
    run("add", clips)

    def names(*conditions: str) -> list[str]:
        return [json.loads(line)["name"] for line in run("list", "--json", *conditions).out.splitlines()]

    assert names() == ["07_01", "09_01"]
    assert names("--behaviour", "run") == ["09_01"]
    assert names("--min-speed", "2") == ["09_01"]
    assert names("--max-speed", "2", "--min-duration", "1.2") == ["07_01"]
    assert names("--subject", "7") == ["07_01"]
    assert names("09") == ["09_01"]
    assert names("--tag", "none") == []


def test_a_bad_file_fails_the_run_but_not_the_others(run, clips, tmp_path):
    (tmp_path / "bad.bvh").write_text("HIERARCHY")
    result = run("add", tmp_path / "bad.bvh", clips / "07_01.bvh", "--json")
    assert result.code == 1
    outcomes = {Path(r["path"]).name: r["outcome"] for r in map(json.loads, result.out.splitlines())}
    assert outcomes == {"bad.bvh": "failed", "07_01.bvh": "added"}
    assert "bad.bvh" in result.err


def test_verify_fails_on_damage_and_repairs_it(run, clips):
    run("add", clips)
    path = Path(json.loads(run("show", "07_01", "--json").out)["path"])
    path.write_bytes(path.read_bytes()[:-1])
    result = run("verify", "--json")
    assert result.code == 1
    assert json.loads(result.out)["damaged"] == [path.stem]
    assert run("verify", "--repair").code == 0
    assert run("verify").code == 0
    assert run("add", clips).out.endswith("1 added, 1 duplicates, 1 unchanged, 0 failed, 1 skipped\n")


def test_a_missing_library_is_not_made_by_asking(run, tmp_path):
    result = run("list")
    assert result.code == 1
    assert "no library here" in result.err
    assert not (tmp_path / "library").exists()


def test_an_unknown_clip_is_named(run, clips):
    run("add", clips)
    result = run("show", "07_02")
    assert result.code == 1
    assert "Did you mean '07_01'?" in result.err
