"""One small job of each system that runs in seconds: its file, `JOB`, and `write`, which writes it with its inputs."""
