"""Linear-time momentum, force and torque of a tree with their Jacobians ([Fang2003]_ B.7-B.16), and baselines."""
