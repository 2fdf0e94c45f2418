"""A synchronous grammar of everyday English and German, from which the demo corpus is generated."""
