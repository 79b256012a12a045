"""Token ids to counts: word by word (`cooccurrence`) and document by word (`documents`)."""
