"""Content: which strings leave a payload, how bytes are compressed, and how blobs are put together again."""
