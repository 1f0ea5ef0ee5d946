"""The locomotion model, its synthesis of poses, and the walker that plays it along a plan."""
