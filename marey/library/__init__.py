"""The clip store: motions addressed by content, with a catalogue."""

from marey.base import deprecated_names, guard_room
from marey.library.clip_library import Library
from marey.library.records import AddOutcome, ClipRecord, Query
from marey.library.store import ProcessLock
from marey.library.survey import expand_paths, is_library, survey_paths

__all__ = [
    "AddOutcome",
    "ClipRecord",
    "Library",
    "ProcessLock",
    "Query",
    "expand_paths",
    "is_library",
    "survey_paths",
]

guard_room(__name__)

__getattr__ = deprecated_names(
    __name__,
    {
        "Added": "AddOutcome",
    },
)
