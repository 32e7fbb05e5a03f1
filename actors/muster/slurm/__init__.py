"""Muster's queues, gangs and preemption for nodes of Slurm: Muster decides, Slurm runs."""
