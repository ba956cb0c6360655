"""``rknnlite.rknn3.rknn3_types`` under the vendor's name."""

from ctypes import *

from rknnlite.rknn3.rknn3_types import *
