"""Signals that score answers without a judge, and the list of signals that a spec asks for."""
