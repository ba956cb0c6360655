"""What an open model says it is."""

from __future__ import annotations

import re

from rknnlite import Context
from rknnlite.errors import ParamInvalid, TargetPlatformUnmatch
from rknnlite.socs import Soc
from rknnlite.spi import AttrKind, Backend, Versions
from rknnlite.tensor import DType, Layout, TensorAttr

from .promises import MASK, promise, refused

__all__: list[str] = []  # pytest collects what is here


def test_it_names_its_backend(context: Context, backend: Backend) -> None:
    promise(
        context.backend_name == backend.name,
        f"Context.backend_name is {context.backend_name!r}; it must be the backend's name, {backend.name!r}",
    )


def test_versions_are_texts(context: Context) -> None:
    found = context.versions
    promise(
        isinstance(found, Versions) and all(isinstance(text, str) for text in found) and found.api,
        f"Context.versions is {found!r}; return Versions(api, driver) of texts, driver 'none' where there is none",
    )


def test_the_soc_is_one_of_the_table(context: Context, backend: Backend) -> None:
    found = context.soc
    promise(
        isinstance(found, Soc) and found.generation in backend.generations,
        f"Context.soc is {found!r:.80}; return a row of rknnlite.socs of a generation of yours, rknnlite.socs.get('rk3588') say",
    )


def test_the_platform_is_a_word(context: Context) -> None:
    promise(
        isinstance(context.platform, str) and re.fullmatch(r"[a-z0-9_]+", context.platform),
        f"Context.platform is {context.platform!r}; servers announce it: take lower-case letters, digits and _",
    )


def test_a_batch_is_a_number(context: Context) -> None:
    promise(
        type(context.batch) is int and context.batch >= 1,
        f"Context.batch is {context.batch!r}; return rknn_batch_size, 1 for a model without",
    )


def test_attributes_are_complete(context: Context) -> None:
    for what, attrs, picture in (
        ("inputs", context.inputs, Layout.NHWC),
        ("outputs", context.outputs, Layout.NCHW),
    ):
        promise(
            isinstance(attrs, list) and attrs and all(isinstance(attr, TensorAttr) for attr in attrs),
            f"Context.{what} is {attrs!r:.80}; return a list of TensorAttr",
        )
        promise(
            [attr.index for attr in attrs] == list(range(len(attrs))),
            f"the indexes of Context.{what} are {[attr.index for attr in attrs]}; count from 0 in the model's order",
        )
        names = [attr.name for attr in attrs]
        promise(
            len(set(names)) == len(names) and all(names),
            f"names of Context.{what} are {names}; give each its own",
        )
        for attr in attrs:
            promise(
                isinstance(attr.dims, tuple) and all(type(dim) is int and dim > 0 for dim in attr.dims),
                f"{attr.name}: dims are {attr.dims!r}; give a tuple of numbers above 0, those of the current shapes",
            )
            layout = picture if len(attr.dims) == 4 else Layout.UNDEFINED
            promise(
                attr.layout is layout,
                f"{attr.name} of rank {len(attr.dims)}: layout is {attr.layout!r}; Context.{what} have {layout.name} at this rank",
            )
            promise(isinstance(attr.dtype, DType), f"{attr.name}: dtype is {attr.dtype!r}; give a DType")


def test_current_attributes_are_those_of_the_current_shapes(context: Context) -> None:
    promise(
        context.attrs(AttrKind.CURRENT_INPUT) == context.inputs
        and context.attrs(AttrKind.CURRENT_OUTPUT) == context.outputs,
        "attrs(AttrKind.CURRENT_INPUT or CURRENT_OUTPUT) differs from inputs or outputs; both are those of the current shapes",
    )


def test_legal_core_masks_are_taken(context: Context) -> None:
    for mask in context.soc.masks:
        try:
            context.set_core_mask(mask)
        except Exception as error:
            promise(
                False,
                f"set_core_mask({mask:#x}) raised {type(error).__name__} ({error}); {context.soc.name} has that mask: take it, "
                "and do nothing without cores",
            )


def test_an_illegal_core_mask_is_refused(context: Context) -> None:
    remedy = "call self.soc.check_core_mask(mask) first"
    with refused(ParamInvalid, TargetPlatformUnmatch, call=f"set_core_mask({MASK:#x})", remedy=remedy):
        context.set_core_mask(MASK)
