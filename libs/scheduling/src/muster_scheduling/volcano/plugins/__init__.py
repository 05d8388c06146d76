"""One file for each plugin. `registry` names them all; a new policy is one file and one line there.

A plugin is a function of the session and its option. It is called once, when the session opens, and
adds functions to the session's points. It may keep what it likes in its own closure or object, and
follows the session through `points.allocated` and `points.deallocated`.
"""
