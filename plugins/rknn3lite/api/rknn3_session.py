"""``rknnlite.rknn3.rknn3_session`` under the vendor's name."""

from rknnlite.rknn3.rknn3_session import *
