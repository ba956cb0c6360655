#!/usr/bin/python3
"""Print a port that nobody uses: tests of several systems may run beside each other on one network."""

import socket

with socket.socket() as found:
    found.bind(("127.0.0.1", 0))
    print(found.getsockname()[1])
