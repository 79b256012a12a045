"""Word vectors in a job, whatever made them: their scores and their neighbours, as stages and in reports."""
