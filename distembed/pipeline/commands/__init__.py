"""The commands of the command line, a file a subject; `distembed.pipeline.cli` joins them."""
