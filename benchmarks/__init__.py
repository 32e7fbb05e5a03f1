"""Benchmarks of Muster: ``python -m benchmarks`` runs them; ``docs/performance.md`` shows them."""
