"""The life of a Volcano Job while its pods run: which event leads to what, and how it ends."""
