// The panel of the GRU's page.
"use strict";
live.panel = { title: _("Gates of a GRU with two layers of 128 cells"), needs: ["gates", "gru", "weights/gru"] };
live.panel.fill = (panel) => {
  const [clock, keeper, names] = [[1, 99], [1, 26], [1, 29]];
  live.gates(panel, {
    ...live.shakespeare, name: "gru",
    rows: [
      { label: _("Reset"), said: _("reset gate"), key: "r", gate: true },
      { label: _("Update"), said: _("update gate"), key: "z", gate: true },
      { label: _("State"), said: _("state"), key: "h" },
    ],
    known: [
      [_("what is left of a line"), ...clock],
      [_("keeps for long"), ...keeper],
      [_("names of speakers"), ...names],
    ],
    held: { label: _("Update gate"), key: "z" },
    text: live.speeches,
    legend: _("A bar for each gate, from 0 to 1, and one for the state. Where the update gate is open, the state passes unchanged. Point at a character, or choose with the controls."),
    observations: [
      [_("Layer 2, cell 27 keeps: at the colon after “ROMEO” its state is −0.71. Then its update gate is never below 0.97, and 52 characters later the state is still −0.64."), keeper, 160],
      [_("Layer 2, cell 100 knows what is left of a line. At a line break and the letter after it the update gate closes and the state becomes 1.00. From then on the state falls. If the gate is always closed, the cell forgets how the line began, and the probability of a line break after “do it:” rises from 11 to 64 %."), clock, 80, 1],
      [_("Layer 2, cell 30 keeps next to nothing, as its update gate is 0.09 on average. It answers to the characters of the moment: −0.60 on average in the names of speakers, 0.99 elsewhere."), names, 12],
    ],
  });
};
