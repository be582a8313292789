"""The state of a running instance: who can tell it, how old it is, and what to do without."""
