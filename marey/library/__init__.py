"""The clip store: a folder of motions under the addresses of their content, with a catalogue."""

from marey.base._deprecation import deprecated_names
from marey.library._address import content_address
from marey.library._behaviour import BEHAVIOURS, Features, guess_behaviour, measure_features
from marey.library._catalogue import CATALOGUE_VERSION, CatalogueError
from marey.library._library import Library
from marey.library._paths import is_library
from marey.library._records import AddOutcome, AddReport, ClipRecord, Query, VerifyReport

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
