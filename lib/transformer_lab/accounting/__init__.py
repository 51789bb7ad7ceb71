"""Parameters, FLOPs, memory, cache and serving: arithmetic on a config, no tensors."""
