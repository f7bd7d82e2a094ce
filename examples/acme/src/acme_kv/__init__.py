"""Acme's KV-cache pools: a package of its own, of which kvproto knows only the entry points."""
