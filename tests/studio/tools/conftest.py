"""A session without a server: motions and files by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from marey import samples
from marey.base import InputError
from marey.motion import Motion
from marey.studio.tools import TOOLS


class PlainContext:
    """What a tool asks of a session, kept for the test to look at."""

    def __init__(self, motions: dict[str, Motion], **facts: Any) -> None:
        self.motions, self.project, self.seed = motions, facts.get("project", {}), facts.get("seed", 0)
        self.files: dict[str, str] = facts.get("files", {})
        self.said: list[tuple[float, str]] = []
        self.partials: list[Motion] = []
        self.drawn: list[dict[str, Any]] = []
        self.stop_after: int | None = facts.get("stop_after")

    @property
    def cancelled(self) -> bool:
        return self.stop_after is not None and len(self.said) >= self.stop_after

    def motion(self, key: str) -> Motion:
        if key not in self.motions:
            raise InputError(f"no clip or take '{key}'")
        return self.motions[key]

    def file(self, key: str) -> str:
        return self.files[key]

    def progress(self, fraction: float, sentence: str, **facts: Any) -> None:
        self.said.append((fraction, sentence))
        self.drawn.append(facts)

    def partial(self, motion: Motion) -> None:
        self.partials.append(motion)


@pytest.fixture(scope="session")
def walk() -> Motion:
    return samples.walk()[:90]


@pytest.fixture
def context(walk: Motion) -> Callable[..., PlainContext]:
    def make(**facts: Any) -> PlainContext:
        return PlainContext({"walk": walk, **facts.pop("motions", {})}, **facts)

    return make


@pytest.fixture
def run(context: Callable[..., PlainContext]) -> Callable[..., Any]:
    """Run a tool to its end over the shipped walk."""

    def start(tool: str, with_context: PlainContext | None = None, **settings: Any) -> Any:
        known = TOOLS[tool]
        own = with_context if with_context is not None else context()
        if any(p.name == "motion" for p in known.parameters):
            settings.setdefault("motion", "walk")
        return known.make(own, known.check(settings))

    return start
