"""A request to look at a picture: the picture, which network, what is kept, and the form of the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

from rknnlite_vision.before.preparation import Way
from rknnlite_vision.heads.head import Limits
from rknnlite_vision.labels import COCO, labels_of_text
from starlette.requests import Request

from ..async_helpers import in_thread
from ..errors import bad_request
from ..form_body import Form, read_form
from ..media import of_base64, of_data_url
from ..request_body import Body, read_body, read_json

__all__ = ["FORMS", "JSON", "Asked", "View", "read_asked"]

JSON = "application/json"
FORMS = {"image/png": ".png", "image/jpeg": ".jpg"}
"""Media types of drawn pictures, and the endings of such files."""
_FIELDS = (
    "model", "score", "overlap", "most", "across", "labels", "hint", "fit", "bgr", "masks", "draw",
)  # fmt: skip
_PICTURES = ("image", "other")
_NUMBERS = ("score", "overlap", "most")
_FLAGS = ("across", "bgr", "draw")
_MASKS = ("rle", "png", "none")
_FITS = tuple(way.value for way in Way)
_MOST_FOUND = 10_000
_MOST_LABELS = 1 << 20  # characters of all names together
_LONGEST = 200  # characters of a name: each of the found has one
_USUAL = Limits()


@dataclass(frozen=True)
class View:
    """How a network is to be taken: a hint for its head, names of its classes, how a picture becomes the input. None, empty or
    False: as the network itself tells, or as is usual."""

    hint: str = ""
    labels: Optional[list[str]] = None
    fit: Optional[Way] = None
    bgr: bool = False


@dataclass(frozen=True)
class Asked:
    """What a request says.

    Attributes:
        picture: what a file holds.
        model: empty where none is named.
        limits: what of the found is kept.
        view: what is known of the network better than it tells itself.
        masks: rle, png or none.
        form: media type of the answer.
        other: what a second file holds, which is compared with the first; empty where there is none.
    """

    picture: bytes
    model: str
    limits: Limits
    view: View
    masks: str
    form: str
    other: bytes = b""


async def read_asked(request: Request, limit: int, take: Callable[[int], None]) -> Asked:
    """The request in an address and a body of at most ``limit`` bytes, for which ``take`` makes room. Raises ApiError.

    The body is JSON or a form with the picture as ``image`` and perhaps ``other``, or the picture itself, whatever type it is
    said to have.
    """
    query = request.query_params
    given = Form({name: query.getlist(name) for name in query}).body(_NUMBERS, _FLAGS)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    other = b""
    if kind == JSON:
        body = await read_json(request, limit, take=take)
        picture, other = [await in_thread(_of_text, body.text(name), name) for name in _PICTURES]
        body = Body({name: value for name, value in body.fields.items() if name not in _PICTURES})
    elif kind == "multipart/form-data":
        form = await read_form(request, limit, take)
        body, picture = form.body(_NUMBERS, _FLAGS), form.file("image")
        other = form.file("other") if "other" in form.files else b""
        if "labels" in form.files:
            body = Body({**body.fields, "labels": form.file("labels").decode("utf-8-sig", "replace")})
    else:
        body, picture = Body({}), await read_body(request, limit, take)
    if not picture:
        raise bad_request(
            "there is no picture: send the bytes of a JPEG or PNG file, a form with the file image, or JSON with image",
            "image",
        )
    told = {name: value for each in (body, given) for name, value in each.fields.items() if value is not None}
    told.pop("image", None)
    unknown = sorted(set(told) - set(_FIELDS))
    if unknown:
        raise bad_request(f"{unknown[0][:80]!r} is unknown; known are {', '.join(_PICTURES + _FIELDS)}")
    return _asked(Body(told), picture, other, request.headers.get("accept", ""))


def _asked(told: Body, picture: bytes, other: bytes, accept: str) -> Asked:
    limits = Limits(
        told.number("score", _USUAL.score, 0.0, 1.0),
        told.number("overlap", _USUAL.overlap, 0.0, 1.0),
        told.whole("most", _USUAL.most, 1, _MOST_FOUND),
        told.flag("across"),
    )
    fit = told.text("fit", choices=_FITS)
    view = View(told.text("hint"), _labels(told), Way(fit) if fit else None, told.flag("bgr"))
    masks = told.text("masks", _MASKS[0], _MASKS)
    form = _form(accept, told.flag("draw"))
    return Asked(picture, told.text("model"), limits, view, masks, form, other)


def _labels(told: Body) -> Optional[list[str]]:
    """Names of classes: a list, ``coco``, or a text: lines, words with commas, JSON."""
    given = told.fields.get("labels")
    if given is None:
        return None
    labels: Any = given
    if isinstance(given, str) and len(given) <= _MOST_LABELS:
        labels = list(COCO) if given == "coco" else labels_of_text(given)
    if not isinstance(labels, list) or not labels or not all(isinstance(label, str) for label in labels):
        raise told.wrong("labels", "coco, a list of names, or a text with one in a line or between commas")
    if max(map(len, labels)) > _LONGEST or sum(map(len, labels)) > _MOST_LABELS:
        raise bad_request(
            f"labels: a name has at most {_LONGEST} characters, all of them have {_MOST_LABELS}", "labels"
        )
    return labels


def _form(accept: str, draw: bool) -> str:
    """The first type that the client takes and that is there; with ``draw`` a picture in any case."""
    types = [word.partition(";")[0].strip().lower() for word in accept.split(",")]
    there = [word for word in types if word in FORMS or (word == JSON and not draw)]
    return there[0] if there else next(iter(FORMS)) if draw else JSON


def _of_text(text: str, name: str) -> bytes:
    """A data URL, or base64 alone."""
    return of_data_url(text, "image", name) if ":" in text[:64] else of_base64(text, name)
