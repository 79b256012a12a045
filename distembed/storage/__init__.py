"""The storage of a workspace: a folder of files, records of them, arrays by blocks, stages, and their commits.

`Workspace` opens or creates a workspace; `Stage` writes one stage of it block by block and commits it.
"""
