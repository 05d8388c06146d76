"""The HTTP API: one module for each group of paths, thin over the gateway."""
