"""The naive model: the plain algorithm of the specification, kept as the oracle of the tests."""
