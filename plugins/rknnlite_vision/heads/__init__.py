"""Heads: outputs of networks to what is found in a picture.

* ``head``: what all are. ``recognise``: which one a network has, by names and shapes; ``families``: a row for each;
  ``seen``: what they go by.
* ``stored``: numbers as they are stored. ``candidates``: whose score passes. ``suppression``: of boxes that overlap, the best.
* ``yolo``: what all YOLOs share. ``yolo_sides``, ``yolo_zoo``: distances to the sides, as Rockchip's zoo cuts them;
  ``compiled_sides``: the same in C.
  ``yolo_anchors``: v5 and v7. ``yolo_tables``: boxes that the network decodes. ``extras``: keypoints and masks; ``resampling``.
* ``whole``: classification, the class of each pixel, text. ``text_boxes``: lines of text; ``connected``: regions of a mask.
* ``yolox``, ``ppyoloe``, ``nanodet``: detectors of others; ``levels``: their outputs by stride.
* ``rtdetr``: boxes as shares of the picture. ``heat_maps``: keypoints of one person. ``logits``: what lacks its sigmoid.
* ``faces``: RetinaFace, SCRFD, YuNet. ``embeddings``: vectors, by hint.
"""
