"""Tables of names and numbers: how they are read, cleaned, joined by name, and what a job says of them."""
