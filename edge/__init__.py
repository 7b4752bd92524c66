"""The half that holds private data."""
