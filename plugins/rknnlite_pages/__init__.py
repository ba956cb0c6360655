"""Reports as pages of HTML that need nothing else (extra ``html``); ``rich_terminal``: terminals in colours (extra ``rich``)."""
