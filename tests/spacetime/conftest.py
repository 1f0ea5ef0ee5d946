"""Shipped behaviours, ready for a search in their spaces."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import marey.spacetime
from marey.spacetime import BehaviourSpace

FOLDER = Path(marey.spacetime.__file__).parent / "behaviours"


@pytest.fixture(scope="session")
def behaviour() -> Callable[[str], BehaviourSpace]:
    """A shipped behaviour by name, loaded once."""

    @cache
    def load(name: str) -> BehaviourSpace:
        return BehaviourSpace.load(FOLDER / f"{name}.safetensors").with_energy()

    return load


@pytest.fixture(scope="session")
def jumps(behaviour) -> BehaviourSpace:
    return behaviour("jump")


@pytest.fixture(scope="session")
def walks(behaviour) -> BehaviourSpace:
    return behaviour("walk")
