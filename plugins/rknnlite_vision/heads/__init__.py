"""Heads: outputs of networks to what is found in a picture.

* ``head``: what all are. ``recognise``: which one a network has, by names and shapes.
"""
