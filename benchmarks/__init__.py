"""Benchmarks of Muster: ``python -m benchmarks`` runs them; ``docs/performance.md`` shows them."""

import muster as muster  # first of all, as this reads MUSTER_PURE
