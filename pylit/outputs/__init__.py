"""The files beside the pages, and the folder that holds all of them.

Style sheets, scripts and fonts (`assets`, `fonts`), social `cards`, the `search` index and the
files for programs (`indexes`). `links` audits every link and anchor of the site, and `folder`
writes what has changed, all at once.
"""
