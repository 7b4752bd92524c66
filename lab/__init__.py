"""The experimenter's tools."""
