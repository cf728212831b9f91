"""The rules as people meet them: the catalogue, what it does not know, drift, the box to try a log in."""
