"""Whole jobs: cleaning of takes; synthesis from sketches with the choice of an engine and checks; batches, archives."""

from marey.base import deprecated_names, guard_room
from marey.pipeline.batch import ArchiveReport, run_archive, run_batch
from marey.pipeline.cleaning import CleaningResult, CleaningSettings, clean_motion
from marey.pipeline.in_betweens import BetweenResult, KeyPlan, load_keys, make_in_betweens, take_keys
from marey.pipeline.measures import check_motion
from marey.pipeline.recipes import Recipe, load_recipe, parse_recipe, run_recipe, save_recipe
from marey.pipeline.synthesis import ENGINES, SynthesisResult, choose_engine, synthesize_sketch
from marey.pipeline.takes import edit_motion

__all__ = [
    "ENGINES",
    "ArchiveReport",
    "BetweenResult",
    "CleaningResult",
    "CleaningSettings",
    "KeyPlan",
    "Recipe",
    "SynthesisResult",
    "check_motion",
    "choose_engine",
    "clean_motion",
    "edit_motion",
    "load_keys",
    "load_recipe",
    "make_in_betweens",
    "parse_recipe",
    "run_archive",
    "run_batch",
    "run_recipe",
    "save_recipe",
    "synthesize_sketch",
    "take_keys",
]

guard_room(__name__)

__getattr__ = deprecated_names(
    __name__,
    {
        "synthesize": "synthesize_sketch",
    },
)
