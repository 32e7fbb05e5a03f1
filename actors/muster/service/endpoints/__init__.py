"""End points as tables, from which both the routes and the OpenAPI document are made."""
