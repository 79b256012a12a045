"""The data sets that jobs and pages of results use: where they come from, and what makes their files of them."""
