"""Joint limits: the contract, boxes, cones, ellipsoids, distance fields, and how each is learnt from clips."""
