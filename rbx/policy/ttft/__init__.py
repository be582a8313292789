"""How long until the first token, instance by instance: the estimators that a router may ask."""
