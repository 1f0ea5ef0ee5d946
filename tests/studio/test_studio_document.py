"""The page's state: the playhead keeps inside the clip, whatever the page sends."""

from __future__ import annotations

import math

import numpy as np
import pytest

from marey.base import InputError
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import HUMAN
from marey.studio.document.page import ClipFrames, PageDocument


@pytest.fixture
def document() -> PageDocument:
    """A still person of 61 frames at 60 Hz."""
    roots = np.tile(HUMAN.offsets[0], (61, 1))
    still = Motion(HUMAN, 60.0, roots, SO3.identity(61, 22))
    opened = PageDocument()
    opened.open("still", ClipFrames.from_motion(still))
    return opened


@pytest.mark.parametrize(("asked", "given"), [(-5.0, 0.0), (99999.0, 60.0), (1e308, 60.0), (12.0, 12.0)])
def test_the_playhead_is_held_inside_the_clip(document: PageDocument, asked: float, given: float) -> None:
    document.seek(asked)
    assert document.frame == given


def test_a_playhead_that_is_no_number_is_refused(document: PageDocument) -> None:
    with pytest.raises(InputError, match="not a number"):
        document.seek(math.nan)


def test_time_moves_the_playhead_at_the_clip_rate_times_the_speed(document: PageDocument) -> None:
    document.playing = True
    document.set_speed(0.5)
    document.advance(0.5)
    assert document.frame == pytest.approx(15.0)


def test_time_does_nothing_while_paused(document: PageDocument) -> None:
    document.advance(0.5)
    assert document.frame == 0.0


def test_a_loop_starts_again_and_a_single_run_stops_at_the_end(document: PageDocument) -> None:
    document.playing = True
    document.advance(1.25)
    assert document.frame == pytest.approx(15.0) and document.playing
    document.loop = False
    document.advance(1.25)
    assert document.frame == 60.0 and not document.playing


def test_only_known_speeds_and_parts_are_taken(document: PageDocument) -> None:
    with pytest.raises(InputError, match="one of"):
        document.set_speed(1e9)
    with pytest.raises(InputError, match="no 'Muscles' to show"):
        document.show("Muscles", True)


def test_a_film_stands_still_with_both_feet_down(document: PageDocument) -> None:
    film = document.film
    assert film is not None
    np.testing.assert_allclose(film.positions[0], HUMAN.rest_positions(), atol=1e-6)
    feet = [film.contact_names.index(f"{side}_heel") for side in ("left", "right")]
    assert film.contacts[:, feet].all()
    assert film.trail()[:, 1].max() < 0.01
