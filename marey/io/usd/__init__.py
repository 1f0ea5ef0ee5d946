"""USD skeletons (`.usd`, `.usda`, `.usdc`, `.usdz`), by the library usd-core in a child process."""
