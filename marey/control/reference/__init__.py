"""The reference of a tracked figure: coordinates, centre of mass and footholds of a clip, per step."""
