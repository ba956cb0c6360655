"""Reports as pages of HTML that need nothing else (extra ``html``)."""
