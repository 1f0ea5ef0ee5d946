"""The clip store: a folder of motions under the addresses of their content, with a catalogue."""

from marey.base.deprecation import deprecated_names
from marey.library.behaviour import BEHAVIOURS, Features, guess_behaviour, measure_features
from marey.library.catalogue import CATALOGUE_VERSION, CatalogueError
from marey.library.clip_library import Library
from marey.library.records import AddOutcome, AddReport, ClipRecord, Query, VerifyReport, content_address
from marey.library.store import is_library

__all__ = [
    "BEHAVIOURS",
    "CATALOGUE_VERSION",
    "AddOutcome",
    "AddReport",
    "CatalogueError",
    "ClipRecord",
    "Features",
    "Library",
    "Query",
    "VerifyReport",
    "content_address",
    "guess_behaviour",
    "is_library",
    "measure_features",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "Added": "AddOutcome",
    },
)
