"""The machine you do not have: a plant, its own governor, and the tree of files it serves."""
