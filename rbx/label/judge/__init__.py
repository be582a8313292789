"""Scores by a judge: DeepEval's G-Eval over a language model, its replies read strictly."""
