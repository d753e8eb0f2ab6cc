"""Authorization over HTTP, a file for each part of the pages; both roles."""
