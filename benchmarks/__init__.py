"""What Muster costs: ``python -m benchmarks`` measures it, and ``docs/performance.md`` shows it."""
