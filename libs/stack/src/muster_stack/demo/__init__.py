"""The main job, shown on real servers: what `make demo` runs."""
