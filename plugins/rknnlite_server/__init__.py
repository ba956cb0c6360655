"""A server of language models: OpenAI's API over the sessions of any backend."""

from __future__ import annotations
