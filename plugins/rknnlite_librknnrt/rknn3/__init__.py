"""What serves programs on ``librknn3_api.so``: contexts, sessions and the chat server."""
