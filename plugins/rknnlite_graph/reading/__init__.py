"""From the tables of a container to a ``Graph``: nodes, stages, convolutions, weights."""
