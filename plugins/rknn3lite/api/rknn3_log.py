"""``rknnlite.rknn3.rknn3_log`` under the vendor's name."""

from rknnlite.rknn3.rknn3_log import *
