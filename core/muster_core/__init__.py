"""The decision logic of Muster: pure and synchronous, without I/O, clock, tasks or chance."""
