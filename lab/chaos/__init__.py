"""Trouble by plan: what is done to the nodes of a run while it goes on, and what has to hold at its end all the same.

`scenario` what a file may say; `schedule` the steps that it comes to; `project`, `engine` and `containers` the real
thing; `disturber` and `virtual` the same under a virtual clock; `story` what is kept of it.
"""
