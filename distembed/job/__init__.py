"""What a job is: its file, its stages, their plan and state, and the run that computes them."""
