"""What networks see in pictures: a picture in, what was found out, as JSON or drawn.

* ``routes``; ``asked`` (a request), ``sights`` (what lies around a network), ``answers`` (what was found, as JSON or drawn).

Networks run as those of the Open Inference Protocol do, in the same queue, with the same rows of a batch and figures.
"""
