"""The parts of the page: overview, queues, asks and gangs, nodes, configuration, time."""
