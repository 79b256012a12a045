"""The report of a run: arrays, lists and mappings in, one self-contained HTML file out.

Each builder returns a `Section`; `render_report` binds sections into a page. The page needs no network and no script:
figures are inline SVG, styles are inline, and a content security policy says so to the browser. Equal input gives
equal bytes, so a report can be compared and cached like any other output of a job. The libraries that draw take half a
second to import: a run whose report is there, and which prints its last lines, does without them.
"""

from distembed.evaluation.scoring import FEW_KNOWN as FEW_KNOWN
from distembed.views.report.figures import Interval as Interval
from distembed.views.report.figures import bar_chart as bar_chart
from distembed.views.report.figures import histogram as histogram
from distembed.views.report.figures import interval_chart as interval_chart
from distembed.views.report.figures import line_chart as line_chart
from distembed.views.report.figures import panel_chart as panel_chart
from distembed.views.report.maps import word_maps as word_maps
from distembed.views.report.page import Section as Section
from distembed.views.report.page import folded as folded
from distembed.views.report.page import group as group
from distembed.views.report.page import note as note
from distembed.views.report.page import paragraph as paragraph
from distembed.views.report.page import render_report as render_report
from distembed.views.report.run import invitation as invitation
from distembed.views.report.run import run_sections as run_sections
from distembed.views.report.run import ways_on as ways_on
from distembed.views.report.tables import first_rows as first_rows
from distembed.views.report.tables import neighbor_table as neighbor_table
from distembed.views.report.tables import objective_curve as objective_curve
from distembed.views.report.tables import paper_tables as paper_tables
from distembed.views.report.tables import score_sections as score_sections
from distembed.views.report.tables import table as table
from distembed.views.report.tables import three_decimals as three_decimals
from distembed.views.report.tables import zipf_curve as zipf_curve
