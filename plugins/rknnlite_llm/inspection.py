"""What a package of a language model says of itself."""

from __future__ import annotations

from collections import Counter
from typing import Optional

from rknnlite.formats import ModelFile, is_package
from rknnlite.spi.inspection import Description, Inspector

from .container.description import read_llm

__all__ = ["PackageInspector"]


class PackageInspector(Inspector):
    """See the module."""

    name = "llm"

    def describe(self, file: ModelFile, check: bool) -> Optional[Description]:
        """Family, sizes, weights and task, one line each."""
        if not is_package(file.data):
            return None
        model = read_llm(file)
        arch = model.arch
        task = "score" if arch.scorer else "embedding" if model.embedding else "generate"
        facts = {
            "file": file.label,
            "kind": "language model package of rknnlite",
            "name": model.name,
            "family": arch.family,
            "layers": arch.layers,
            "hidden": arch.hidden,
            "heads": arch.heads,
            "kv_heads": arch.kv_heads,
            "vocabulary": arch.vocab_size,
            "weights": model.weights,
            "kv_cache": model.kv.dtype.name,
            "max_context": model.max_context,
            "cores": model.core_num,
            "task": task,
        }
        if model.chosen:
            counts = Counter(one.weights for one in model.chosen)
            facts["matrices"] = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        if model.embedding:
            facts.update(pooling=model.embedding.pooling.value, normalised=model.embedding.normalise)
        data = {"model": file.label, **facts, "layer_count": arch.layers}
        del data["file"], data["layers"]  # there: a file that was written, a list of layers
        return Description(data, [f"{name + ':':15}{value}" for name, value in facts.items()], [], [])
