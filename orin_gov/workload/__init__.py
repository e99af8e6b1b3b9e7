"""The training script: launching it exactly as python would, and marking its phases."""
