"""The version of Muster; the build reads it here, too."""

__version__ = "0.1.0.dev0"
