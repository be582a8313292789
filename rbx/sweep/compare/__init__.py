"""Live cells beside the simulator: steps reconstructed, decisions replayed, policies run again."""
