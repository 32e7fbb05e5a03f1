"""What Slurm is told and what it says, as texts: pure functions, without commands or tasks."""
