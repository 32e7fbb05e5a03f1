"""Reading the objects of a dump one by one, from YAML and JSON; it must not know what they mean."""
