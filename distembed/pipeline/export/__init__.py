"""Tables that leave a workspace: words, names, documents and topics, as files that pandas and Excel read."""
