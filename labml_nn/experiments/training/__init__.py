r"""
---
title: Training
summary: >
  How a model gets its parameters: one update, and what makes thousands of them come to
  a good end.
---

Guess, be told how wrong it was, change a little. That is one **update**, and training
is thousands of them.
"""
