"""What a problem takes for granted around the body."""

from __future__ import annotations

from marey.spacetime import build_surroundings, load_problem


def test_bars_hang_where_hands_grip_and_stones_lie_under_raised_feet():
    bars = build_surroundings(load_problem("monkey-bars")).bars
    assert sorted(bar.start[2] for bar in bars) == [0.0, 0.45, 0.9, 1.35]
    assert all(bar.start[1] == bar.end[1] == 2.2 and bar.end[0] - bar.start[0] > 1.0 for bar in bars)
    stones = build_surroundings(load_problem("stepping-stones")).stones
    assert [(stone.position[1], stone.height_m) for stone in stones] == [(1.1, 0.08), (2.45, 0.12), (3.55, 0.05)]


def test_a_problem_on_plain_ground_has_an_empty_world():
    world = build_surroundings(load_problem("jump-1.0"))
    assert not world.bars and not world.stones
