"""Usage intervals to cost lines, pure."""
