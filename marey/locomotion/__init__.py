"""On-line walking, running and jumping from a model of captured gaits."""

from marey.locomotion._model import EFFECTORS, EVENTS, GaitArrays

__all__ = [
    "EFFECTORS",
    "EVENTS",
    "GaitArrays",
]
