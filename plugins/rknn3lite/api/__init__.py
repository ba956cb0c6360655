"""Every name that ``from rknn3lite.api import ...`` finds in the vendor's package, from ``rknnlite.rknn3``.

That package has no ``__all__``, so what its modules import can be imported from it too, and programs do.
"""

import platform
import time
from ctypes import *
from enum import IntEnum, auto

import numpy as np

from rknnlite.rknn3 import RKNN3Lite, RKNN3Session, rknn3Log
from rknnlite.rknn3.rknn3_types import *

from . import rknn3_lite, rknn3_log, rknn3_runtime, rknn3_session, rknn3_types
