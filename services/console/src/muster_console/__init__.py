"""The console: pages about queues, workloads, nodes and cost. It changes nothing."""
