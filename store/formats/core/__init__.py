"""The shared parts of formats: views of payloads, edits of their bytes, sessions of lines and of documents."""
