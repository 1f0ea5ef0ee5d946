"""Whatever a page sends as a setting, a tool answers with a sentence, never with a bare Python error."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from marey.base import MareyError
from marey.io import load
from marey.samples import problem_file
from marey.studio.project import MotionArchive
from marey.studio.tools import TOOLS
from marey.studio.tools.physics import read_own_problem
from marey.studio.worker import RunContext

JUNK: tuple[Any, ...] = (
    3, "x", True, [1], [None], ["x"], [[]], [{}], [{"take": 3}], [{"kind": "pin"}], [{"kind": "contact"}],
    [{"keys": 3}], [{"keys": [3]}], [{"time_s": "now"}], {"a": {}}, {"phase": 3}, {"start": 3},
    [{"time_s": float("nan"), "place": [1], "joint": "head", "force_n": [1]}], [{"step": -1}], [{"jump": "high"}],
)  # fmt: skip
SLOW = ("path", "problem", "strips")  # whose junk may reach an engine
CASES = [
    (tool.id, parameter.name)
    for tool in TOOLS.values()
    for parameter in tool.parameters
    if parameter.kind in ("table", "points", "file", "range")
]


@pytest.mark.parametrize(("tool", "name"), CASES)
def test_junk_is_refused_by_a_sentence(context: Any, tool: str, name: str) -> None:
    known = TOOLS[tool]
    for value in JUNK:
        session = context(project={"takes": {}, "clips": {}})
        session.file = lambda key: f"/nowhere/{key}.bvh"
        settings: dict[str, Any] = {name: value}
        if any(p.name == "motion" for p in known.parameters):
            settings["motion"] = "walk"
        if any(p.name == "seconds" for p in known.parameters):
            settings["seconds"] = 0.02
        try:
            full = known.check(settings)
            if known.kind in ("drag", "live"):
                known.run(session, full).move({})
            if known.has_recipe and tool not in SLOW:
                known.make(session, full)
        except MareyError:
            continue


FILES = [(tool.id, name) for tool in TOOLS.values() for name in tool.file_names]


@pytest.mark.parametrize(("tool", "name"), FILES)
def test_no_file_of_the_disk_can_be_named(walk: Any, tmp_path: Path, tool: str, name: str) -> None:
    (tmp_path / "walk.bvh").write_text("not yours")
    store, known = MotionArchive(tmp_path / "motions"), TOOLS[tool]
    project = {"takes": {}, "clips": {"walk": {"hash": store.put(walk)}}}
    context = RunContext(project, store, tmp_path / "uploads")
    run = known.make if known.kind == "live" else known.run
    for value in ("/etc/hosts", str(tmp_path / "walk.bvh"), "../walk.bvh", "..", ".", "walk.bvh", "~/x"):
        settings = {name: value} | ({"shipped": "s-curve", "engine": "graph"} if tool == "path" else {})
        settings |= {"motion": "walk"} if "motion" in known.input_names else {}
        settings |= {"poses": [{"time_s": 0.0}]} if tool == "between" else {}
        with pytest.raises(MareyError, match="no uploaded file"):
            run(context, known.check(settings))


@pytest.mark.parametrize(
    "table", [{"character": "/etc/hosts.bvh"}, {"basis": "../x.safetensors"}, {"key": [{"pose": "/etc/x.bvh@1.0"}]}]
)
def test_a_problem_of_a_page_names_motions_of_the_project_alone(context: Any, tmp_path: Path, table: Any) -> None:
    own = tomllib.loads(problem_file("step-over").read_text(encoding="utf-8"))
    own |= {name: value if name != "key" else [own["key"][0] | value[0]] for name, value in table.items()}
    with pytest.raises(MareyError, match=r"file of this machine|no clip or take"):
        read_own_problem(context(), own, tmp_path)


def test_a_pose_of_the_timeline_is_a_key_of_a_problem(context: Any, tmp_path: Path) -> None:
    own = tomllib.loads(problem_file("step-over").read_text(encoding="utf-8"))
    own["key"][0] |= {"pose": "walk@0.5"}
    file, _, time = str(read_own_problem(context(), own, tmp_path).keys[0].pose).rpartition("@")
    assert time == "0.5" and load(file).num_frames == context().motion("walk").num_frames


def test_a_scene_that_is_uploaded_names_no_other_file(context: Any, tmp_path: Path) -> None:
    folder = tmp_path / "uploads"
    folder.mkdir()
    (folder / "own.toml").write_text('[mesh]\nfile = "../../secret.obj"\n[seed]\n')
    session = context(files={"u": str(folder / "own.toml")})
    with pytest.raises(MareyError, match="of this machine"):
        TOOLS["muscle"].run(session, TOOLS["muscle"].check({"file": "u"}))
