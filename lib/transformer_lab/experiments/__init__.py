"""The measured answers a lesson asks for: plain functions, tensors in, a small result out."""
