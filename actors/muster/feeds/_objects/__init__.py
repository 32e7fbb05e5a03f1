"""Reading Kubernetes objects in feeds: Pods, PodGroups, Nodes, queues, classes.

The core decides what an applied object changes.
"""
