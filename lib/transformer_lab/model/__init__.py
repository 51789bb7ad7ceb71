"""The Transformer itself: pure torch, nothing drawn, readable as a textbook."""
