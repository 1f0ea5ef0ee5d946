"""What writers share: the clips of a file, root motion; and tables of joints, CSV, TRC and SMPL archives."""
