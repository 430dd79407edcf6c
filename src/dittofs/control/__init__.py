"""The control plane: REST, the page, the audit log.  Shows and changes what services know; holds no rule of theirs."""
