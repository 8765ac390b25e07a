"""What the pages share: the pipelines, addresses, access, autorefresh, messages."""
