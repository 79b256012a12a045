"""The report of a run: arrays, lists and mappings in, one self-contained HTML file out.

Each builder returns a `Section`; `render_report` binds sections into a page. The page needs no network and no script:
figures are inline SVG, styles are inline, and a content security policy says so to the browser. Equal input gives
equal bytes, so a report can be compared and cached like any other output of a job. The libraries that draw take half a
second to import: a run whose report is there, and which prints its last lines, does without them.
"""

from distembed.evaluation.scoring import FEW_KNOWN
from distembed.views.report.figures import Interval, bar_chart, histogram, interval_chart, line_chart
from distembed.views.report.maps import scatter_map, word_map, word_maps
from distembed.views.report.page import Section, folded, group, paragraph, render_report
from distembed.views.report.run import Stage, invitation, parameter_table, stage_rows, stage_table, ways_on
from distembed.views.report.tables import (
    count_sparsity,
    eigenvalue_spectrum,
    first_rows,
    neighbor_table,
    objective_curve,
    score_sections,
    score_table,
    table,
    three_decimals,
    zipf_curve,
)

__all__ = [
    "FEW_KNOWN",
    "Interval",
    "Section",
    "Stage",
    "bar_chart",
    "count_sparsity",
    "eigenvalue_spectrum",
    "first_rows",
    "folded",
    "group",
    "histogram",
    "interval_chart",
    "invitation",
    "line_chart",
    "neighbor_table",
    "objective_curve",
    "paragraph",
    "parameter_table",
    "render_report",
    "scatter_map",
    "score_sections",
    "score_table",
    "stage_rows",
    "stage_table",
    "table",
    "three_decimals",
    "ways_on",
    "word_map",
    "word_maps",
    "zipf_curve",
]
