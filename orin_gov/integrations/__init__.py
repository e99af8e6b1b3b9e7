"""Thin modules for the tools a training loop is written with: each imports its package and no other."""
