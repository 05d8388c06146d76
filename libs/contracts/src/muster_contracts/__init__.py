"""What crosses the wire: messages, subjects, envelope, schemas.

Messages are frozen dataclasses over domain values; pydantic reads and writes them at this edge
only. Within a major version fields are only ever added, with defaults; readers ignore what they do
not know.
"""
