"""Streams: a source, a network and a sink beside each other; tracks."""
