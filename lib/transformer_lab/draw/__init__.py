"""Results become matplotlib pictures here; nothing in this room knows of widgets or models."""
