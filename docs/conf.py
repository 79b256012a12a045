"""The documentation site: `python -m sphinx -W --keep-going -b html docs docs/_build/html`, without network.

Sphinx, because it is what the libraries of this field are documented with: their objects can be linked, examples are
tests, and notebooks are executed when the site is built.
"""

from __future__ import annotations

import sys
from pathlib import Path

import distembed

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS / "_ext"))

project = "distembed"
author = "the distembed developers"
project_copyright = author
version = release = distembed.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx-mathjax-offline",
    "repository_links",
    "generated_pages",
    "command_examples",
    "live_explorer",
    "builder_paths",
]
# Summaries of the library are written with the first suffix: reStructuredText, as docstrings are.
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
suppress_warnings = ["toc.empty_glob"]  # a folder may have no page yet

# Markdown: formulas between dollars, and an anchor for every heading down to the fourth level.
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

# Notebooks are executed when their code has changed; a cell that fails stops the build.
nb_execution_mode = "cache"
nb_execution_timeout = 300
nb_execution_in_temp = True  # what a notebook writes is no part of the documentation
nb_execution_raise_on_error = True

# The reference of the library is written from the docstrings.
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections have the types
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template of a class lists its methods

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

templates_path = ["_templates"]
html_theme = "pydata_sphinx_theme"
html_title = "distembed"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = True  # each page links to its Markdown
html_copy_source = True
html_sourcelink_suffix = ""
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system has it
html_theme_options = {
    "logo": {"text": "distembed"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc", "sourcelink"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}
