"""Tables of what a fit says of new states, in memory and from file to file."""
