"""One file for each action: a pass over a session. `registry` names them all."""
