"""From two manifests to the bytes that travel."""
