"""``RknnPredictor``: a model in a pipeline of ``ray.data``, an actor per NPU core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_protocol.traces import traces_until_the_end

from rknnlite.errors import ContextInvalid, InputInvalid, ParamInvalid, RknnError
from rknnlite.spi import Context

from .columns import Columns, column, joined, named, part, stacked
from .cores import WorkerCores
from .opening import Opened, open_on_node
from .problems import with_place

__all__ = ["RknnPredictor"]

Array = NDArray[Any]


class RknnPredictor:
    """The class for ``Dataset.map_batches``; ``map_arguments`` makes the arguments that belong to it.

    Args:
        model: path, bytes, or a reference to bytes in Ray's object store.
        backend: as for ``rknnlite.open``.
        inputs: which column is which input: a name, names in the order of the inputs, or ``{input: column}``; None:
            columns have the names of the inputs, and the only column there is belongs to the only input.
        outputs: names for the columns of results, likewise; None: the names of the outputs.
        keep: columns that stay in the result; None: all but those of the inputs, as pixels need not travel on.
        pre: applied to each value of an input column; its result is what the model gets (decoding JPEG, say).
        post: applied to the list of outputs of each row. It returns a mapping of columns, or the value of the only
            column that ``outputs`` names.
        cores: NPU cores: ``"spread"``, one that no other worker of the node has; ``"auto"``, ``"all"`` or a mask.
        threads: threads of the CPU reference.
        infer: arguments of ``Context.infer``, such as ``{"layout": "nchw"}``.
        traces: address of a collector of OpenTelemetry that gets a span for each batch; None: there are no spans.
        trace: headers of the trace that those belong to; ``map_arguments`` gives those of the program's.
        options: further arguments of ``rknnlite.open``.

    A row holds tensors without the model's leading axis (1, or ``rknn_batch_size``); tensors that have none, those of
    an LSTM say, are whole. A model with ``rknn_batch_size`` gets so many rows at once; what is missing in the last
    ones is filled up, and the results of that are dropped.

    What goes wrong when the model is opened is raised with the first batch: Ray starts an actor again and again
    whose constructor raises.

    Raises (in ``__call__``):
        ModelInvalid, BackendUnavailable, TargetPlatformUnmatch, ParamInvalid: the model cannot be opened on this node.
        InputInvalid: a column is missing, or a row does not fit the model; the text names both.

    Examples:
        >>> import numpy as np
        >>> model = "examples/resnet18/resnet18_for_RK3588.rknn"
        >>> predict = RknnPredictor(model, backend="cpu", inputs="image", outputs="logits")
        >>> rows = predict({"id": np.arange(2), "image": np.zeros((2, 224, 224, 3), np.uint8)})
        >>> sorted(rows), rows["logits"].shape
        (['id', 'logits'], (2, 10))
    """

    def __init__(
        self,
        model: Any,
        backend: Optional[str] = None,
        inputs: Columns = None,
        outputs: Columns = None,
        keep: Optional[Sequence[str]] = None,
        pre: Optional[Callable[[Any], Any]] = None,
        post: Optional[Callable[[list[Array]], Any]] = None,
        cores: WorkerCores = "spread",
        threads: int = 1,
        infer: Optional[Mapping[str, Any]] = None,
        traces: Optional[str] = None,
        trace: Sequence[tuple[str, str]] = (),
        **options: Any,
    ) -> None:
        self._keep, self._pre, self._post, self._infer = keep, pre, post, dict(infer or {})
        self._named = inputs is not None
        self._traces, self._trace = traces_until_the_end(self, traces), dict(trace)
        self._opened: Optional[Opened] = None
        self._failed: Optional[RknnError] = None
        try:
            self._opened = open_on_node(model, backend, cores, threads=threads, **options)
            context = self._opened.context
            self._inputs = named(inputs, [attr.name for attr in context.inputs], "inputs")
            self._outputs = (
                [outputs]
                if post is not None and isinstance(outputs, str)
                else named(outputs, [attr.name for attr in context.outputs], "outputs")
            )
        except RknnError as error:
            self._failed = with_place("the model cannot be opened", error)
            self.close()

    def __call__(self, batch: Mapping[str, Array]) -> dict[str, Array]:
        """One row of results for each row of the batch, in the same order."""
        if self._failed is not None:
            raise self._failed
        if self._opened is None:
            raise ContextInvalid("this predictor is closed")
        try:
            if self._traces is None:
                return self._results(self._opened.context, batch)
            with self._traces.span("map batch", "CONSUMER", self._trace) as span:
                span.set_attribute("rknnlite.rows", len(next(iter(batch.values()), ())))
                return self._results(self._opened.context, batch)
        except RknnError as error:
            raise with_place("a batch failed", error) from error

    def close(self) -> None:
        """Close the context. Ray ends actors without asking; context and core go with the process then."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _results(self, context: Context, batch: Mapping[str, Array]) -> dict[str, Array]:
        alone = not self._named and len(self._inputs) == len(batch) == 1
        names = list(batch) if alone else self._inputs
        given = [column(batch, name) for name in names]
        count = len(given[0])
        rows: list[dict[str, Any]] = []
        for start in range(0, count, context.batch):
            stop = min(start + context.batch, count)
            try:
                rows += self._run(context, [values[start:stop] for values in given])
            except InputInvalid as error:
                raise InputInvalid(f"column {', '.join(names)}, row {start} of the batch: {error}") from error
        kept = [name for name in batch if name not in names] if self._keep is None else self._keep
        result = {name: column(batch, name) for name in kept}
        for name in rows[0] if rows else self._outputs:
            result[name] = stacked([row[name] for row in rows])
        return result

    def _run(self, context: Context, given: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
        """One call of the model: for each input the values of at most ``batch`` rows."""
        arrays = [
            joined([self._value(value) for value in values], attr, context.batch)
            for attr, values in zip(context.inputs, given)
        ]
        outputs = context.infer(*arrays, **self._infer)
        return [
            self._row([part(output, row, context.batch) for output in outputs])
            for row in range(len(given[0]))
        ]

    def _value(self, value: Any) -> Array:
        return np.asarray(value if self._pre is None else self._pre(value))

    def _row(self, outputs: list[Array]) -> dict[str, Any]:
        if self._post is None:
            return dict(zip(self._outputs, outputs))
        found = self._post(outputs)
        if isinstance(found, Mapping):
            return dict(found)
        if len(self._outputs) != 1:
            raise ParamInvalid(
                f"post returned a {type(found).__name__}; return a mapping of columns, or name the one column in outputs"
            )
        return {self._outputs[0]: found}
