"""Clips and what can be measured on them."""

from marey.motion._motion import Contacts, LoadReport, Motion, Source

__all__ = ["Contacts", "LoadReport", "Motion", "Source"]
