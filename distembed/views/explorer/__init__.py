"""The page to explore: words, names or documents on a map with search and neighbors, in one file without a network.

A system says what its page shows (`items`); the layout, the exact neighbors and the page are the same for all systems.
"""
