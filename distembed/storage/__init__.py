"""The storage of a workspace: schema, workspace, sparse blocks, manifests.

`Workspace` opens or creates a workspace; `Stage` writes one stage of it block by block and commits it.
"""
