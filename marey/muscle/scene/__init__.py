"""Scenes of soft bodies: files, simulation, films, measurements."""
