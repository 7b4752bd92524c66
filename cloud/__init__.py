"""The half that coordinates."""
