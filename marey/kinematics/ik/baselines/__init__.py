"""Solvers to compare the default with: projected gradient ([Engell2012]_ eq. 30-40), cyclic descent, analytic limbs."""
