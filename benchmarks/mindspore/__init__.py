"""MindSpore's planner, to compare with: its cost model, and dynamic programming by eliminations over a cost graph."""
