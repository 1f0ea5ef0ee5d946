"""The rules of the house, read from the sources: sizes, names, what a user can reach, who imports what."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from . import house

MOST_IN_A_FOLDER = 16  # modules, `__init__` among them
MOST_FILES = 520
MOST_LINES = 92_000
MOST_FUNCTIONS = 50  # in a thousand lines
MOST_USED_ONCE = 0.22
LEAST_COMMENTS = 0.02
MOST_PARTICIPLES = 0.01


def test_no_folder_holds_more_than_sixteen_modules() -> None:
    assert {folder: count for folder, count in house.folders().items() if count > MOST_IN_A_FOLDER} == {}


def test_three_files_with_one_prefix_are_a_folder() -> None:
    assert house.prefix_families() == []


def test_the_product_has_at_most_520_files() -> None:
    assert len(house.modules()) <= MOST_FILES


def count_lines(folder: str, *suffixes: str) -> int:
    """Lines of the files of a folder, tests and style sheets left out."""
    files = (path for path in (Path(__file__).parents[1] / folder).rglob("*") if path.suffix in suffixes)
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def test_the_studio_has_at_most_4500_lines() -> None:
    assert count_lines("marey/studio", ".py") <= 4500


def test_the_client_has_at_most_9000_lines() -> None:
    assert count_lines("web/src", ".ts", ".tsx") <= 9000


@pytest.mark.xfail(strict=True, reason="133 800 lines")
def test_the_product_has_at_most_92_000_lines() -> None:
    assert house.num_lines() <= MOST_LINES


def test_a_thousand_lines_hold_at_most_fifty_functions() -> None:
    assert 1000 * sum(1 for _ in house.functions()) / house.num_lines() <= MOST_FUNCTIONS


@pytest.mark.xfail(strict=True, reason="25 % of the functions are used at most once")
def test_few_functions_are_used_at_most_once() -> None:
    assert house.share_used_once() <= MOST_USED_ONCE


def test_comments_stand_on_lines_of_their_own() -> None:
    assert house.num_comment_lines() / house.num_lines() >= LEAST_COMMENTS


def test_a_class_name_exists_once() -> None:
    names = Counter(node.name for module in house.modules().values() for node in house.classes(module))
    assert [name for name, count in names.items() if count > 1] == []


def test_functions_are_not_named_by_a_bare_participle() -> None:
    names = [node.name for _, node in house.functions()]
    assert sum(map(house.is_participle, names)) / len(names) < MOST_PARTICIPLES


def test_a_participle_is_told_from_a_noun_and_a_verb() -> None:
    assert all(map(house.is_participle, ("moved", "_held", "settled")))
    assert not any(map(house.is_participle, ("speed", "move", "is_moved", "held_feet", "bound")))


def test_kernels_take_at_most_eight_arguments() -> None:
    assert house.long_kernels() == []


def test_every_definition_can_be_reached_by_a_user() -> None:
    assert [str(one) for one in house.unreachable()] == []


@pytest.mark.xfail(strict=True, reason="39 names, most of them types of results")
def test_every_public_name_of_a_room_is_used_outside_it() -> None:
    assert house.unused_public_names() == {}


@pytest.mark.xfail(strict=True, reason="23 imports of modules inside another room")
def test_no_room_imports_what_lies_inside_another_room() -> None:
    assert house.private_imports() == []


def test_the_graph_follows_tables_registrations_and_commands() -> None:
    seen = {name for _, name in house.reached(house.roots())}
    assert {"read_bvh", "write_gltf"} <= seen  # named by strings in the table of formats
    assert {"synth", "simulate", "info"} <= seen  # verbs of the command, added to its application
    assert {"synthesize", "solve_ik", "HUMAN"} <= seen  # names of the package
    law = next(key for key in house.edges() if key[1] == "task_law")
    assert any(name == "_" or name.startswith("_") for module, name in house.edges()[law] if module == law[0])


def test_a_local_variable_is_no_use_of_a_function_of_its_name() -> None:
    code = house.ast.parse("def outer(drag):\n    lift = 1\n    return [drag for turn in spin(lift)]\n")
    assert house.read_mentions(code.body, "marey").chains == {("spin",)}
