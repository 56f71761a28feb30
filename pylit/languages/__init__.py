"""Texts that stand apart from the code they speak of: the pages of a site in other languages.

`language` reads the folder of a language, and `translations` lays a file of translated passages
over the notes of its page. The words that are in no note are `pylit.words`.
"""
