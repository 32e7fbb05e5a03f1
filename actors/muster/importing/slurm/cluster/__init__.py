"""What a cluster of Slurm is, beside its jobs: nodes, partitions, accounts, qualities of service.

It knows nothing of jobs.
"""

from __future__ import annotations
