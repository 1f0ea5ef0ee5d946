"""From a path through the graph back to a motion: joins, planted feet, hands brought to their objects."""
