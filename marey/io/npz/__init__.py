"""Motions in NumPy's `.npz` archives: AMASS and SMPL parameters, Kimodo clips, MuJoCo coordinates."""
