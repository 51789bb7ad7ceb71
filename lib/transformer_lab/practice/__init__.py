"""Exercises that recognise mistakes, questions that explain every option, and a learner's progress."""
