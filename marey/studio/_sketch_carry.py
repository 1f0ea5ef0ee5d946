"""Where the things of a sketch are while its clip is played: in the hand that took them, until it puts them down."""

from __future__ import annotations

import numpy as np

from marey.studio._film import ClipFrames, Float32
from marey.studio._sketch_drawn import SketchState
from marey.studio._sketch_items import Point3, object_number
from marey.world import Event

HANDS = ("left_hand", "right_hand")


def carried_objects(film: ClipFrames, drawn: SketchState) -> dict[str, Float32]:
    """Places ``(F, 3)`` [m] of the things that are picked up, by name; nothing for a body without hands.

    A thing is taken in the frame in which a hand is nearest to it, and put down where that hand is nearest to the
    place asked for, each after what came before it.
    """
    hands = [film.contact_names.index(hand) for hand in HANDS if hand in film.contact_names]
    if not hands:
        return {}
    places: dict[str, Float32] = {}
    holder: dict[str, int] = {}
    after = 0
    for event in drawn.events:
        if event.kind not in ("pick", "place") or event.object is None:
            continue
        goal = _goal(drawn, event)
        allowed = hands if event.kind == "pick" else [holder.get(event.object, hands[0])]
        frame, hand = _nearest(film, allowed, goal, after)
        if event.kind == "pick":
            places[event.object] = _follow_hand(film, goal, frame, hand)
            holder[event.object] = hand
        elif event.object in places:
            places[event.object][frame:] = goal
        after = frame
    return places


def _goal(drawn: SketchState, event: Event) -> Point3:
    if event.to is not None:
        return event.to
    form = drawn.forms[object_number(drawn, event)]
    return form.x, form.height_m, form.z


def _nearest(film: ClipFrames, hands: list[int], goal: Point3, after: int) -> tuple[int, int]:
    """Frame and hand that come nearest to a place, not before a frame."""
    away = np.linalg.norm(film.contact_points[after:, hands] - np.array(goal), axis=-1)
    frame, hand = np.unravel_index(int(away.argmin()), away.shape)
    return after + int(frame), hands[int(hand)]


def _follow_hand(film: ClipFrames, goal: Point3, frame: int, hand: int) -> Float32:
    places = np.tile(np.array(goal, dtype=np.float32), (film.num_frames, 1))
    places[frame:] = film.contact_points[frame:, hand]
    return places
