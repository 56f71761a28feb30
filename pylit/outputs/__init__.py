"""Files beside the pages, and the folder that holds all of them."""
