"""The phases of a training step: one list of names, shared by every room and by the native ring."""

PHASES = ("idle", "data", "forward", "backward", "optimizer", "eval", "checkpoint")
"""Phase names by their code. `idle` is all time in none of the others: host gaps, logging."""

IDLE, DATA, FORWARD, BACKWARD, OPTIMIZER, EVAL, CHECKPOINT = range(len(PHASES))

EPOCH_END = 150
"""The kind of the mark that says that the training data have come to their end."""
