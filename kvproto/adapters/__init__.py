"""One folder for every vendor: a platform, and the leaves and allocators it builds."""
