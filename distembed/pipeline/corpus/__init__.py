"""A corpus in a job: its sections of the job file, and the stages from documents to counts of pairs."""
