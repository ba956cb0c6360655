"""Language models on the CPU: decoder-only transformers with numpy alone.

* What is open: ``context``, ``engine`` (a loaded model, shared by sessions), ``session``, ``conversation`` (what one
  remembers), ``generation`` (one run), ``continuous_batching`` (one pass through the weights for all sessions that wait).
* What goes in and comes out: ``prefill_input``, ``decoder_input``, ``positions`` (M-RoPE of images and videos),
  ``prompt_logits``, ``utf8``.
* The network: ``decoder``, ``encoder``; ``attention_layer``, ``recurrent_layer``, ``attention_mask``, ``feed_forward``,
  ``expert_choice``, ``token_rows`` (of every layer), ``rope``, ``norms_and_activations``; ``embedding`` and ``score_head`` for
  models of vectors and scores.
* Numbers: ``attention``, ``latent_attention`` and ``linear`` are the definitions; ``compiled_attention`` (``attention.c``)
  and ``compiled_products`` (``products.c``) the same, built on the machine; ``compiled_step`` (``step.c``) takes a token through
  the decoder, ``compiled_store`` tells C where a cache lies. ``weight_reader``: weights by name.
* KV cache: ``kv_cache`` (who sees which slot), ``kv_cache_storage``, ``kv_cache_formats`` (FP8, FP4, integers),
  ``kv_cache_file``; ``running_state`` of layers that have no keys.
* Beside the model: ``speculation`` and ``draft_model`` (guessed tokens), ``lora`` and ``peft`` (adapters).
"""

from __future__ import annotations

from .context import CpuLlmContext

__all__ = ["CpuLlmContext"]
