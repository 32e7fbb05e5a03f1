"""Admission: the effects of an event, a configuration or the end of a gang's wait on owners.

It checks events against what exists (the queue tree, applications, nodes, gangs, priority
classes) and turns them into messages to owners. It decides nothing about placing asks.
"""
