"""Clips as a page reads them: a header, and blocks of frames in single precision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from marey.base import InputError, write_atomically
from marey.picture import describe_clip, ground_level
from marey.picture.bodies import contacts_or_detect
from marey.studio.project.store import MotionArchive
from marey.studio.protocol.framing import encode_frame
from marey.studio.protocol.messages import VERSION, BlockMessage, ClipMessage

BLOCK_FRAMES: Final = 1024


def make_header(store: MotionArchive, key: str) -> bytes:
    """Frame with everything of a clip but its frames.

    It is kept beside the motion: detecting the contacts of a take of an hour costs seconds.
    """
    kept = store.find(key).with_suffix(f".header{VERSION}")
    if kept.is_file():
        return kept.read_bytes()
    motion = store.get(key)
    motion = replace(motion, contacts=contacts_or_detect(motion))
    assert motion.contacts is not None
    header: dict[str, Any] = describe_clip(motion, {}, lambda array: np.asarray(array, np.float32))
    arrays = {"offsets": header.pop("offsets"), "shapes": header["capsules"].pop("shapes")}
    header |= {
        "frames": motion.num_frames,
        "has_translations": motion.translations is not None,
        "ground_m": ground_level(motion, motion.contacts),
    }
    frame = encode_frame(ClipMessage(key, header, arrays))
    write_atomically(kept, frame)
    return frame


def cut_blocks(store: MotionArchive, key: str, first: int, count: int) -> Iterator[BlockMessage]:
    """Blocks that hold the frames asked for; each starts at a multiple of :data:`BLOCK_FRAMES`."""
    motion = store.get(key)
    if first >= motion.num_frames:
        raise InputError(f"frame {first} of a motion of {motion.num_frames}", "Ask for one that there is")
    for start in range(first - first % BLOCK_FRAMES, min(first + count, motion.num_frames), BLOCK_FRAMES):
        frames = slice(start, start + BLOCK_FRAMES)
        moving = None if motion.translations is None else motion.translations[frames].astype(np.float32)
        rotations = np.roll(motion.rotations.wxyz[frames], -1, axis=-1).astype(np.float32)
        yield BlockMessage(key, start, motion.root_positions[frames].astype(np.float32), rotations, moving)
