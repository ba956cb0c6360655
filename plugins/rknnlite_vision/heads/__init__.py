"""Heads: outputs of networks to what is found in a picture.

* ``head``: what all are. ``recognise``: which one a network has, by names and shapes; ``seen``: what that goes by; ``families``: a row for each.
* ``stored``: numbers as they are stored. ``candidates``: cells whose score passes. ``suppression``: of boxes that overlap, the best.
* ``yolo_sides``: YOLOv6, v8, v9, v10, 11, 12, 26, World.
"""
