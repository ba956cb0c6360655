"""``rknnlite.rknn3.rknn3_runtime`` under the vendor's name."""

from rknnlite.rknn3.rknn3_runtime import *
