// The start of the site's script.
