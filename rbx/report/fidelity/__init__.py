"""How far the simulator may be trusted: live cells beside their replays."""
