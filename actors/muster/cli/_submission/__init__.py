"""What users submit, run and wait for: ``muster run`` and ``muster submit``."""
