"""Feet and hands on the ground: detection, schedules of plants, and clips whose feet stay where they stand."""

from marey.base import guard_room
from marey.contacts.detection.cycle import (
    PlantInterval,
    detect_events,
    detect_plants,
    detect_plants_by_threshold,
    plant_windows,
)
from marey.contacts.detection.methods import (
    ContactPhase,
    StancePlant,
    contact_phases,
    detect_contacts,
    ensure_contacts,
    feet_down,
    slide_mm,
)
from marey.contacts.detection.points import ContactSettings
from marey.contacts.feet import PlantEdit
from marey.contacts.floor import FloorPlane
from marey.contacts.hold import BrokenPlant, HoldResult, hold_feet, pigeon_toe
from marey.contacts.plants import HoldSettings
from marey.contacts.schedule import ContactSchedule, FootPlant

__all__ = [
    "BrokenPlant",
    "ContactPhase",
    "ContactSchedule",
    "ContactSettings",
    "FloorPlane",
    "FootPlant",
    "HoldResult",
    "HoldSettings",
    "PlantEdit",
    "PlantInterval",
    "StancePlant",
    "contact_phases",
    "detect_contacts",
    "detect_events",
    "detect_plants",
    "detect_plants_by_threshold",
    "ensure_contacts",
    "feet_down",
    "hold_feet",
    "pigeon_toe",
    "plant_windows",
    "slide_mm",
]

guard_room(__name__)
