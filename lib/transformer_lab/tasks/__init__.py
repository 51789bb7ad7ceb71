"""Small worlds to learn on: sentences and tasks a model can master in seconds."""
