"""The command line, a module for each group of commands."""

from distembed.heaps import share_one_heap

share_one_heap()  # before the commands import libraries that start threads
