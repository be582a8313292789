"""Watching a live server: the steps that it executes, and a load that makes them worth watching."""
