"""The tasks of a fuzzed program: clients, binders and watchers, and the checks of their answers."""
