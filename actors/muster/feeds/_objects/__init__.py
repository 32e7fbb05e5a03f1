"""Kubernetes objects in feeds: Pods, PodGroups, Nodes, queues and priority classes.

The core decides what an applied object changes.
"""
