"""What a job is: configuration, stages, runner, cluster, report, command line."""
