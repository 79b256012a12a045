"""The report of a run: sections that are data until the page is written, and the figures that they hold."""
