"""Notes to HTML: Markdown, with anchors, footnotes, mathematics and links without addresses."""
