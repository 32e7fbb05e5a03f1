"""The page: what people see of the service in a browser.

It is rendered here. htmx fetches again what has changed, and nothing comes from another address.
"""
