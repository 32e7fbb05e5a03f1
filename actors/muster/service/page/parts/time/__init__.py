"""Time: steps from moment to moment, and what happened in a span of the kept history."""
