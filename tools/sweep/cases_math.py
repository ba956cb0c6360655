"""Element-wise functions, comparisons, broadcasting, reductions, casts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from graph import Case, Net
from judge import Judge

__all__ = ["cases"]

# function: (low, high, attributes, judge)
_UNARY: dict[str, tuple[float, float, dict[str, Any], Judge]] = {
    "Relu": (0, 0, {}, Judge.CLOSE), "LeakyRelu": (0, 0, {"alpha": 0.2}, Judge.CLOSE),
    "Elu": (0, 0, {"alpha": 0.8}, Judge.CLOSE), "Selu": (0, 0, {}, Judge.CLOSE),
    "Celu": (0, 0, {"alpha": 1.5}, Judge.CLOSE), "Sigmoid": (-6, 6, {}, Judge.CLOSE),
    "HardSigmoid": (-4, 4, {}, Judge.CLOSE), "Softplus": (-4, 4, {}, Judge.CLOSE),
    "Softsign": (0, 0, {}, Judge.CLOSE), "Tanh": (-3, 3, {}, Judge.CLOSE), "Erf": (-2, 2, {}, Judge.CLOSE),
    "Exp": (-2, 2, {}, Judge.CLOSE), "Log": (0.2, 5, {}, Judge.CLOSE), "Sqrt": (0.05, 6, {}, Judge.CLOSE),
    "Reciprocal": (0.5, 4, {}, Judge.CLOSE), "Abs": (0, 0, {}, Judge.CLOSE), "Neg": (0, 0, {}, Judge.CLOSE),
    "Sin": (-4, 4, {}, Judge.CLOSE), "Cos": (-4, 4, {}, Judge.CLOSE), "Tan": (-1.2, 1.2, {}, Judge.CLOSE),
    "Asin": (-0.95, 0.95, {}, Judge.CLOSE), "Acos": (-0.95, 0.95, {}, Judge.CLOSE),
    "Atan": (-3, 3, {}, Judge.CLOSE), "Sinh": (-2, 2, {}, Judge.CLOSE), "Cosh": (-2, 2, {}, Judge.CLOSE),
    "Asinh": (-3, 3, {}, Judge.CLOSE), "Acosh": (1.1, 5, {}, Judge.CLOSE), "Atanh": (-0.9, 0.9, {}, Judge.CLOSE),
    "Floor": (-5, 5, {}, Judge.STEPS), "Ceil": (-5, 5, {}, Judge.STEPS), "Round": (-5, 5, {}, Judge.STEPS),
    "Sign": (0, 0, {}, Judge.STEPS), "Shrink": (0, 0, {"lambd": 0.4, "bias": 0.1}, Judge.STEPS),
    "ThresholdedRelu": (0, 0, {"alpha": 0.5}, Judge.STEPS), "Hardmax": (0, 0, {"axis": 1}, Judge.STEPS),
}  # fmt: skip
_REDUCTIONS = (
    "ReduceMax", "ReduceMin", "ReduceMean", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceProd",
)  # fmt: skip
_COMPARISONS = ("Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual")


def _unary(kind: str, low: float, high: float, attributes: dict[str, Any]) -> Callable[[Net], str]:
    return lambda n: n.op(kind, n.x(1, 16, 12, 10, low=low, high=high), **attributes)


def _clip(n: Net) -> str:
    return n.op("Clip", n.x(1, 16, 12, 10), n.const(-0.6), n.const(1.1))


def _prelu(n: Net) -> str:
    return n.op("PRelu", n.x(1, 16, 12, 10), n.const(n.rng.uniform(0.05, 0.4, (16, 1, 1))))


def _prelu_shared(n: Net) -> str:
    return n.op("PRelu", n.x(1, 16, 12, 10), n.const([0.25]))


def _pow(exponent: float, low: float) -> Callable[[Net], str]:
    return lambda n: n.op("Pow", n.x(1, 16, 12, 10, low=low, high=2.5), n.const(exponent))


def _binary(
    kind: str, a: tuple[int, ...], b: tuple[int, ...], low: float = 0, high: float = 0
) -> Callable[[Net], str]:
    return lambda n: n.op(kind, n.x(*a, low=low, high=high), n.x(*b, low=low, high=high))


def _with_constant(kind: str, *shape: int, low: float = 0.5, high: float = 2.0) -> Callable[[Net], str]:
    return lambda n: n.op(kind, n.x(1, 16, 12, 10), n.const(n.rng.uniform(low, high, shape)))


def _from_constant(kind: str) -> Callable[[Net], str]:
    return lambda n: n.op(kind, n.const(2.0), n.x(1, 16, 12, 10, low=0.5, high=3))


def _three(kind: str) -> Callable[[Net], str]:
    return lambda n: n.op(kind, *(n.x(1, 16, 8, 8) for _ in range(3)))


def _comparison(kind: str) -> Callable[[Net], str]:
    def build(n: Net) -> str:
        same = n.op(kind, n.x(1, 16, 10, 10), n.x(1, 16, 10, 10))
        return n.op("Cast", same, to=1)

    return build


def _threshold(n: Net) -> str:
    return n.op("Cast", n.op("Greater", n.x(1, 16, 10, 10), n.const(0.3)), to=1)


def _logic(kind: str) -> Callable[[Net], str]:
    def build(n: Net) -> str:
        sides = [n.op("Greater", n.x(1, 8, 10, 10), n.const(0.1)) for _ in range(2)]
        return n.op("Cast", n.op(kind, *sides), to=1)

    return build


def _not(n: Net) -> str:
    return n.op("Cast", n.op("Not", n.op("Less", n.x(1, 8, 10, 10), n.const(0.1))), to=1)


def _where(n: Net) -> str:
    a, b = n.x(1, 16, 10, 10), n.x(1, 16, 10, 10)
    return n.op("Where", n.op("Greater", a, b), a, b)


def _where_constant(n: Net) -> str:
    mask = n.const(n.rng.integers(0, 2, (1, 16, 10, 10)), "bool")
    return n.op("Where", mask, n.x(1, 16, 10, 10), n.const(-1.0))


def _where_bool_input(n: Net) -> str:
    return n.op("Where", n.x(1, 16, 10, 10, dtype="bool"), n.x(1, 16, 10, 10), n.x(1, 16, 10, 10))


def _mod(fmod: int) -> Callable[[Net], str]:
    return lambda n: n.op("Mod", n.x(1, 8, 10, 10, low=0.0, high=9.0), n.const(2.5), fmod=fmod)


def _is_nan(n: Net) -> str:
    return n.op("Cast", n.op("IsNaN", n.x(1, 8, 10, 10)), to=1)


def _reduction(kind: str, axes: list[int], keep: int) -> Callable[[Net], str]:
    def build(n: Net) -> str:
        low, high = (0.4, 1.6) if kind in ("ReduceProd", "ReduceLogSum") else (0.0, 0.0)
        x = n.x(1, 8, 6, 10, low=low, high=high)
        if kind == "ReduceSum":
            return n.op(kind, x, n.ints(*axes), keepdims=keep)
        return n.op(kind, x, axes=axes, keepdims=keep)

    return build


def _arg(kind: str, axis: int, keep: int = 1, **attributes: Any) -> Callable[[Net], str]:
    return lambda n: n.op(kind, n.x(1, 12, 8, 9), axis=axis, keepdims=keep, **attributes)


def _top_k(largest: int, axis: int) -> Callable[[Net], list[str]]:
    return lambda n: n.ops("TopK", 2, n.x(1, 12, 8, 20), n.ints(4), largest=largest, axis=axis)


def _cast_from_int(dtype: str) -> Callable[[Net], str]:
    def build(n: Net) -> str:
        real = n.op("Cast", n.x(1, 8, 6, 6, dtype=dtype, low=0, high=20), to=1)
        return n.op("Mul", real, n.const(0.5))

    return build


def _cast_to_int(code: int) -> Callable[[Net], str]:
    return lambda n: n.op("Cast", n.x(1, 8, 6, 6, low=-9, high=9), to=code)


def _cast_there_and_back(n: Net) -> str:
    return n.op("Cast", n.op("Cast", n.x(1, 8, 6, 6, low=-9, high=9), to=6), to=1)


def _int_sum(n: Net) -> str:
    return n.op("Add", n.x(1, 8, 6, 6, dtype="int64", low=0, high=50), n.const(7, "int64"))


def _ranked(kind: str, *shape: int) -> Callable[[Net], str]:
    return lambda n: n.op(kind, n.x(*shape))


def _chain(n: Net) -> str:
    x = n.x(1, 16, 10, 10)
    y = n.op("Mul", n.op("Add", x, n.const(0.5)), n.const(1.7))
    return n.op("Sub", n.op("Div", y, n.const(3.0)), n.op("Abs", x))


def cases() -> Iterator[Case]:
    """All cases of this family."""
    for kind, (low, high, attributes, judge) in _UNARY.items():
        yield Case(kind.lower(), _unary(kind, low, high, attributes), 13, judge)
    yield Case("clip", _clip)
    yield Case("hardswish", _unary("HardSwish", -4, 4, {}), 14)
    yield Case("mish", _unary("Mish", -4, 4, {}), 18)
    yield Case("gelu20", _unary("Gelu", -4, 4, {}), 20)
    yield Case("prelu", _prelu)
    yield Case("prelu_shared", _prelu_shared)
    for exponent, low in ((2.0, -2.5), (3.0, -2.0), (0.5, 0.1), (1.7, 0.1)):
        yield Case(f"pow_{exponent:g}", _pow(exponent, low))
    full = (1, 16, 12, 10)
    for kind in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"):
        low, high = (0.5, 2.5) if kind in ("Div", "Pow") else (0.0, 0.0)
        yield Case(f"{kind.lower()}_same", _binary(kind, full, full, low, high))
    for kind in ("Add", "Mul"):
        for name, other in (("channel", (1, 16, 1, 1)), ("row", (1, 1, 1, 10)), ("map", (1, 1, 12, 10))):
            yield Case(f"{kind.lower()}_{name}", _binary(kind, full, other))
        yield Case(f"{kind.lower()}_outer", _binary(kind, (1, 16, 1, 10), (1, 1, 12, 1)))
    yield Case("sub_channel", _binary("Sub", full, (1, 16, 1, 1)))
    yield Case("div_map", _binary("Div", full, (1, 1, 12, 10), 0.5, 2.5))
    for kind in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
        yield Case(f"{kind.lower()}_scalar", _with_constant(kind))
    for kind in ("Add", "Mul", "Sub", "Div"):
        yield Case(f"{kind.lower()}_constant_channel", _with_constant(kind, 1, 16, 1, 1))
    yield Case("add_constant_tensor", _with_constant("Add", 1, 16, 12, 10, low=-2))
    for kind in ("Sub", "Div", "Pow"):
        yield Case(f"{kind.lower()}_from_scalar", _from_constant(kind))
    for kind in ("Sum", "Mean", "Max", "Min"):
        yield Case(f"{kind.lower()}_three", _three(kind))
    for kind in _COMPARISONS:
        yield Case(kind.lower(), _comparison(kind), 13, Judge.STEPS)
    yield Case("greater_scalar", _threshold, 13, Judge.STEPS)
    for kind in ("And", "Or", "Xor"):
        yield Case(kind.lower(), _logic(kind), 13, Judge.STEPS)
    yield Case("not", _not, 13, Judge.STEPS)
    yield Case("where", _where, 13, Judge.STEPS)
    yield Case("where_constant_mask", _where_constant)
    yield Case("where_bool_input", _where_bool_input)
    yield Case("mod", _mod(0), 13, Judge.STEPS)
    yield Case("fmod", _mod(1), 13, Judge.STEPS)
    yield Case("isnan", _is_nan, 13, Judge.STEPS)
    for kind in _REDUCTIONS:
        yield Case(f"{kind.lower()}_hw", _reduction(kind, [2, 3], 1))
        yield Case(f"{kind.lower()}_c", _reduction(kind, [1], 1))
    yield Case("reducemean_w_flat", _reduction("ReduceMean", [3], 0))
    yield Case("reducemax_h", _reduction("ReduceMax", [2], 0))
    yield Case("reducesum_all", _reduction("ReduceSum", [0, 1, 2, 3], 1))
    yield Case("argmax_c", _arg("ArgMax", 1), 13, Judge.STEPS)
    yield Case("argmax_w", _arg("ArgMax", 3, 0), 13, Judge.STEPS)
    yield Case("argmax_last", _arg("ArgMax", 1, 1, select_last_index=1), 13, Judge.STEPS)
    yield Case("argmin_h", _arg("ArgMin", 2), 13, Judge.STEPS)
    yield Case("topk_largest", _top_k(1, 3), 13, Judge.STEPS)
    yield Case("topk_smallest_c", _top_k(0, 1), 13, Judge.STEPS)
    for dtype in ("int64", "int32"):
        yield Case(f"cast_from_{dtype}", _cast_from_int(dtype))
    for name, code in (("int32", 6), ("int64", 7), ("bool", 9)):
        yield Case(f"cast_to_{name}", _cast_to_int(code), 13, Judge.STEPS)
    yield Case("cast_there_and_back", _cast_there_and_back, 13, Judge.STEPS)
    yield Case("add_int64", _int_sum, 13, Judge.STEPS)
    for shape in ((24,), (4, 24), (2, 5, 24), (1, 2, 3, 4, 8)):
        yield Case(f"sigmoid_rank{len(shape)}", _ranked("Sigmoid", *shape))
    yield Case("arithmetic_chain", _chain)
