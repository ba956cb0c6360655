"""Before a network: pictures and frames of cameras to what it takes.

* ``preparation``: what one network wants, told once. ``normalisation``: mean and deviation that a model file leaves out.
* ``frame``: frames of V4L2, GStreamer, ffmpeg. ``colours``: luma and chroma to RGB. ``resizing``: other sizes, grey.
* ``rga``: scaling and converting by the engine of Rockchip SoCs.
"""
