"""The systems a job can ask for, each in a folder of its own that no other one imports."""
