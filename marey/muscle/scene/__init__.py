"""Scenes of soft bodies, from their files to films and figures."""
