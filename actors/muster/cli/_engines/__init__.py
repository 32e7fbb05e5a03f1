"""The options of ``muster serve`` about engines that run commands; it knows no others."""
