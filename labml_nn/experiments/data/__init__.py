"""
---
title: Data
summary: From a text to batches of numbers.
---
"""
