"""Word vectors in a job, whatever made them: their scores and their neighbors, as stages and in reports."""
