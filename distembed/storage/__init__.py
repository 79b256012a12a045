"""What is on disk: schema, workspace, sparse blocks, manifests."""
