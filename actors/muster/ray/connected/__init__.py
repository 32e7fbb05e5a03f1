"""What the agent does in the process that is connected to Ray: runs, gates, detached runs, nodes.

It is standard library and msgpack alone, and knows Ray by the class ``Engine`` of ``agent.py``: any
Python that has Ray runs it, without Muster. It must not know trio, nor the rest of Muster.
"""
