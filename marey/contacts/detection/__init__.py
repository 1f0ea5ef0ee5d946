"""Contacts of heels, toes and hands with the ground: detectors, body rules, phases."""
