"""Whatever a page sends as a setting, a tool answers with a sentence, never with a bare Python error."""

from __future__ import annotations

from typing import Any

import pytest

from marey.base import MareyError
from marey.studio.tools import TOOLS

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
