"""The run directory: what a governed run leaves behind."""
