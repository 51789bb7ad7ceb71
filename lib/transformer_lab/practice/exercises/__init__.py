"""One module of exercises per lesson."""
