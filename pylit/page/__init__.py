"""What a reader's browser gets: templates filled in, styles, scripts, fonts, search, previews."""
