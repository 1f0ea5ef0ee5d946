"""Synthesis of motions from sketches: choice of an engine, checks, batches and archives."""

from marey.base import deprecated_names
from marey.pipeline.archive import ArchiveReport, run_archive
from marey.pipeline.batch import run_batch
from marey.pipeline.measures import check_motion
from marey.pipeline.synthesis import ENGINES, SynthesisResult, choose_engine, synthesize_sketch

__all__ = [
    "ENGINES",
    "ArchiveReport",
    "SynthesisResult",
    "check_motion",
    "choose_engine",
    "run_archive",
    "run_batch",
    "synthesize_sketch",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "synthesize": "synthesize_sketch",
    },
)
