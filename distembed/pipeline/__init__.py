"""The definition of a job: configuration, stages, runner, cluster, report, command line."""
