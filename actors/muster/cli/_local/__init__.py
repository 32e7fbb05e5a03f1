"""The options of ``muster serve`` about commands that run on its machine; it knows no others."""
