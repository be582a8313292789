"""Encoders, predictors and the bundle that keeps them."""
