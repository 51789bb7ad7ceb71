"""The set-up cell of every notebook."""
