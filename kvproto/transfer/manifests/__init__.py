"""What a pool holds, as a value that its peers read."""
