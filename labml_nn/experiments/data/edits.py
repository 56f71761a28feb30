r"""
---
title: Where two editions differ
summary: >
  Forty-three places in which the plays of one package and the text that everybody
  trains on do not agree, letter by letter.
---

Two people take the same plays from the same web pages, in different years and with
programs of their own, and what they get is not the same. Most of the differences follow
a pattern, and [the page on the plays](plays.py) undoes them with a few rules. Those on
this page follow none. A blank got lost, somebody corrected a misprint, a line of a song
was taken for a stage direction.

Each entry holds what stands in the plays of the package and what stands in Tiny
Shakespeare. Which of the two is right is not the question. "Who m eets us here" is not,
and neither is "Tim Richard" for "Till Richard". But two losses can be compared only if
both were measured on the same text. With these edits the text is the same, bit for bit,
and a result need not say where it came from.
"""

__all__ = ["EDITS"]

# ## All edits
#
# What is found, and what replaces it, in the order of the text. In another release of
# the package an entry may find nothing. It then changes nothing, and the checksum tells
# that the texts are different ones.
EDITS: tuple[tuple[str, str], ...] = (
    # *Coriolanus*. What stood in brackets was lost, and two shouts from the crowd have
    # become part of what Coriolanus says.
    ("with in my view", "within my view"),
    ("And _\\[Censorinus,]_\nnobly named so,\n", "And  \n"),
    ("being _\\[by the people chosen]_\ncensor,\n", "being  \n"),
    ("\nSenators, & C We'll surety", "\n\nSenators, &C:\nWe'll surety"),
    ("\nSenators, & C Weapons", "\n\nSenators, &C:\nWeapons"),
    # *Richard III*. A line that has one speaker in the folio and another in the quarto;
    # two blanks after many a question, and ghosts.
    ("mounting barbed steeds", "mounting barded steeds"),
    ("Clarence? may I", "Clarence?  may I"),
    ("Ill rest betide", "I'll rest betide"),
    ("DERBY:\nA boon,", "DORSET:\nA boon,"),
    ("DERBY:\nI will not rise,", "DORSET:\nI will not rise,"),
    ("DERBY:\nThe forfeit,", "DORSET:\nThe forfeit,"),
    ("Till Richard wear", "Tim Richard wear"),
    ("of 'ifs'? Thou", "of 'ifs'?  Thou"),
    ("Who m eets us here? my", "Who meets us here?  my"),
    ("No! why? When he", "No! why?  When he"),
    ("to-morrow? Well, all's", "to-morrow?  Well, all's"),
    ("\nGhost\n\nof Prince Edward:", "\n\nGhost of Prince Edward:"),
    ("\nof King Henry VI:", "\nGhost of King Henry VI:"),
    ("\nof young Princes:", "\nGhosts of young Princes:"),
    ("\nof BUCKINGHAM:", "\nGhost of BUCKINGHAM:"),
    ("do I fear? myself? there's", "do I fear?  myself?  there's"),
    ("murderer here? No.", "murderer here?  No."),
    ("from myself? Great", "from myself?   Great"),
    ("Wherefore? for any good", "Wherefore?  for any good"),
    ("is he they follow? truly", "is he they follow?  truly"),
    ("to Richmond? for the selfsame", "to Richmond?  for the selfsame"),
    # *Richard II*, *Romeo and Juliet*, and *Henry VI*. Blanks have crept into words.
    ("if n ot, I", "if not, I"),
    ("on his kn ees", "on his knees"),
    ("his mistres s' name", "his mistress' name"),
    ("LADY CAPULET:\nWe shall be short", "LADY  CAPULET:\nWe shall be short"),
    ("leave me to my self", "leave me to myself"),
    ("awhi le, and we'll", "awhile, and we'll"),
    ("lord of Ireland, & c.", "lord of Ireland, &c."),
    ("And cried 'all hail!' when as he meant all harm.\n", ""),
    # *Measure for Measure*. A line of Angelo's was taken for the name of a speaker, and
    # a song left nothing behind but its empty line.
    ("sufficiency as your Worth", "sufficiency, as your Worth"),
    ("\nA s mine is to him?", "\nAs mine is to him?"),
    ("\n\nAs long as you or I:\nyet he", "\nAs long as you or I yet he"),
    ("old contracting.\n\nMARIANA:", "old contracting.\n\n\nMARIANA:"),
    # *The Taming of the Shrew*, and *The Tempest*.
    ("HORTENSIO:\nFrom all such devils", "HORTENSIA:\nFrom all such devils"),
    ("The younges t daughter", "The youngest daughter"),
    ("\nALL SERVING-MEN Here,", "\n\nALL SERVING-MEN:\nHere,"),
    ("ARIEL'S song.\nCome unto", "Come unto"),
    (
        "\nThe watch-dogs bark!\nHark, hark! I hear\nThe strain of strutting "
        "chanticleer\nCry, Cock-a-diddle-dow.",
        "",
    ),
)
