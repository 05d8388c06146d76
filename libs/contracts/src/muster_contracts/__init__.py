"""Wire messages, subjects, envelope, schemas."""
