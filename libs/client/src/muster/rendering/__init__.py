"""Answers as text for people. Pure: values and the time in, text or rich renderables out."""
