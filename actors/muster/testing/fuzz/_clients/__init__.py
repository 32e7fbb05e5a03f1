"""The tasks of a fuzzed program: clients, binders and observers, and judges of their answers."""
