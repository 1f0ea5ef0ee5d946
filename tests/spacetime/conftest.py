"""Shipped behaviours, ready for a search in their spaces."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from marey.samples import problem_file
from marey.spacetime import BehaviourSpace


@pytest.fixture(scope="session")
def behaviour() -> Callable[[str], BehaviourSpace]:
    """A shipped behaviour by name, loaded once."""

    @cache
    def load(name: str) -> BehaviourSpace:
        return BehaviourSpace.load(problem_file("jump-1.3").parent / f"{name}.safetensors").with_energy()

    return load


@pytest.fixture(scope="session")
def jumps(behaviour) -> BehaviourSpace:
    return behaviour("jump")


@pytest.fixture(scope="session")
def walks(behaviour) -> BehaviourSpace:
    return behaviour("walk")
