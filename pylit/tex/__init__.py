"""TeX to HTML, style rules and fonts, by MathJax in Node, with a cache."""
