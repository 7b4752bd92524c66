"""Privacy on the road: bound what one record can move, add noise, book the release, say what it cost.

`plan` holds the steps of one training release, `probes` those of a private progress report; both are made of
`clipping`, `sampling`, `noise` (a table over `gaussian` and `laplace`) and `lattice`. `ledger` counts releases,
`accountant` turns the counts into an epsilon.
"""
