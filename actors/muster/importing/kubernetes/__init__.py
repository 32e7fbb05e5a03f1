"""Dumps of a Kubernetes cluster, as ``kubectl get … -o yaml`` and ``-o json`` print them.

It must not know the command line.
"""

from __future__ import annotations

from muster.importing.kubernetes.importer import FIELDS, QUEUES, read_kubernetes

__all__ = ["FIELDS", "QUEUES", "read_kubernetes"]
