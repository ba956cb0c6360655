"""A request to look at a picture: the picture, which network, what is kept, and the form of the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rknnlite_vision.heads.head import Limits
from starlette.requests import Request

from ..async_helpers import in_thread
from ..errors import bad_request
from ..form_body import Form, read_form
from ..media import of_base64, of_data_url
from ..request_body import Body, read_body, read_json

__all__ = ["FORMS", "JSON", "Asked", "read_asked"]

JSON = "application/json"
FORMS = {"image/png": ".png", "image/jpeg": ".jpg"}
"""Media types of drawn pictures, and the endings of such files."""
_FIELDS = ("model", "score", "overlap", "most", "across", "masks", "draw")
_NUMBERS = ("score", "overlap", "most")
_FLAGS = ("across", "draw")
_MASKS = ("rle", "png", "none")
_MOST_FOUND = 100_000
_USUAL = Limits()


@dataclass(frozen=True)
class Asked:
    """``picture`` is what a file holds; ``model`` is empty where the request names none; ``masks`` is rle, png or none; ``form``
    is the media type of the answer."""

    picture: bytes
    model: str
    limits: Limits
    masks: str
    form: str


async def read_asked(request: Request, limit: int, take: Callable[[int], None]) -> Asked:
    """The request in an address and a body of at most ``limit`` bytes, for which ``take`` makes room. Raises ApiError.

    The body is JSON or a form with the picture as ``image``, or the picture itself, whatever type it is said to have.
    """
    query = request.query_params
    given = Form({name: query.getlist(name) for name in query}).body(_NUMBERS, _FLAGS)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == JSON:
        body = await read_json(request, limit, take=take)
        text = body.text("image")
        picture = await in_thread(_of_text, text)
    elif kind == "multipart/form-data":
        form = await read_form(request, limit, take)
        body, picture = form.body(_NUMBERS, _FLAGS), form.file("image")
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
        raise bad_request(f"{unknown[0][:80]!r} is unknown; known are image, {', '.join(_FIELDS)}")
    return _asked(Body(told), picture, request.headers.get("accept", ""))


def _asked(told: Body, picture: bytes, accept: str) -> Asked:
    limits = Limits(
        told.number("score", _USUAL.score, 0.0, 1.0),
        told.number("overlap", _USUAL.overlap, 0.0, 1.0),
        told.whole("most", _USUAL.most, 1, _MOST_FOUND),
        told.flag("across"),
    )
    masks = told.text("masks", _MASKS[0], _MASKS)
    return Asked(picture, told.text("model"), limits, masks, _form(accept, told.flag("draw")))


def _form(accept: str, draw: bool) -> str:
    """The first type that the client takes and that is there; with ``draw`` a picture in any case."""
    types = [word.partition(";")[0].strip().lower() for word in accept.split(",")]
    there = [word for word in types if word in FORMS or (word == JSON and not draw)]
    return there[0] if there else next(iter(FORMS)) if draw else JSON


def _of_text(text: str) -> bytes:
    """A data URL, or base64 alone."""
    return of_data_url(text, "image", "image") if ":" in text[:64] else of_base64(text, "image")
