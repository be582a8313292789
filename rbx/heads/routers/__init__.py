"""Trained routers: which model a prompt should go to, learnt from the grid's train split."""
