"""What a reader gets from a finished workspace: report, exported tables, explorer, explanations and figures."""
