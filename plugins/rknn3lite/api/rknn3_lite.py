"""``rknnlite.rknn3.rknn3_lite`` under the vendor's name."""

from rknnlite.rknn3.rknn3_lite import *
