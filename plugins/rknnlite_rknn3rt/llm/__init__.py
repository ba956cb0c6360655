"""Language models on librknn3_api: contexts, sessions, and what goes between their callbacks and C."""
