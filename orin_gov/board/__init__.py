"""The machine: identity, rails, GPU frequency control and the journal that puts it back."""
