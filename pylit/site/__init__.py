"""One site: what it is made of, and everything that is made of it.

`options` is what a build is given, `outcome` what it did. `inputs` reads the site, with its
`readme` and its `notebooks`; `stages` parses and drafts its pages in a `pool` of processes, and
`translated` does so in another language. `edition` arranges the pages of one language, and
`publish` makes all files.
"""
