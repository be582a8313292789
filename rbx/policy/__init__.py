"""Decisions, pure: pool state, objective, assignment, routers, dispatchers."""
