"""A cluster of hosts that have their own addresses on a network that delays and loses frames."""
