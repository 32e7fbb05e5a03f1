"""The version of Muster; the build reads it here, too."""

__version__ = "1.0.0rc1"
