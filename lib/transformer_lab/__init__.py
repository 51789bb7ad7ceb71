"""The shared library of *Transformers, Block by Block*.

Rooms, and who may call whom: ``model`` (torch alone) <- ``tasks``, ``training`` <- ``experiments`` <- ``widgets``;
``draw`` turns a result into a picture and knows none of them; ``practice`` checks a learner's answers.
"""
