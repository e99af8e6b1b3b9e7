"""Pure thinking: windows, features, trees, objectives and the governor. No I/O, no clock."""
