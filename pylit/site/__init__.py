"""Pages together: settings, addresses, neighbours, everything beside the pages, and the folder."""
