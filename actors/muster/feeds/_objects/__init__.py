"""Kubernetes objects in feeds: Pods, PodGroups, Nodes, queues and priority classes.

What applying one changes is decided in the core.
"""
