"""Who must give way: candidates, search for a smallest set, and checking a proposal."""
