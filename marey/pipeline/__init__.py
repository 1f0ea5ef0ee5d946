"""From sketches to motions, whole: the engine is chosen, the motion checked; one sketch or thousands."""

from marey.base._deprecation import deprecated_names
from marey.pipeline._archive import ArchiveReport, run_archive
from marey.pipeline._batch import BatchReport, run_batch
from marey.pipeline._job import BatchItem, BatchJob
from marey.pipeline._measure import SketchCheck, check_motion
from marey.pipeline._synthesize import ENGINES, SynthesisResult, choose_engine, synthesize_sketch

__all__ = [
    "ENGINES",
    "ArchiveReport",
    "BatchItem",
    "BatchJob",
    "BatchReport",
    "SketchCheck",
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
