"""The front door: intent comes in over HTTP and the bus, answers go out.

Owns submissions and declared objects. Keeps nothing that it cannot read again from the streams.
"""
