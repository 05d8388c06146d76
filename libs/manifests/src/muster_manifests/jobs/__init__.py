"""Kinds of jobs, one module a family: each gives one submission."""
