"""``from rknn.api.custom_op import get_node_attr``, as custom operators for rknn-toolkit2 import it."""

from rknnlite.api.custom_op import get_node_attr

__all__ = ["get_node_attr"]
