"""Accuracy on datasets: mean average precision, top-1, words.

* ``truth``: what is in the pictures of a dataset, whatever file says it. Its files: ``coco_json``, ``yolo_labels``, ``labelled``.
* ``coco_score``: the numbers of COCO; ``likeness``, ``masks`` and ``pairing`` are what they take. ``simple_scores``: top-1, words.
* ``measuring``: a network over a dataset. ``onnx_network``: one in float.
"""
