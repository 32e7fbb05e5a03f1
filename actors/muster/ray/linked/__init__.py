"""The program's end of the two pipes: the agent is started, heard, and started again if it is lost."""
