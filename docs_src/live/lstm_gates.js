// The panel of the LSTM's page.
"use strict";
live.panel = { title: _("Gates of an LSTM with two layers of 128 cells"), needs: ["gates", "lstm"], weights: ["weights/lstm"], poems: "tang_lstm" };
live.panel.fill = (panel, poems) => {
  const [clock, counter] = [[1, 56], [1, 85]];
  live.gates(panel, {
    ...live.shakespeare, name: "lstm",
    rows: [
      { label: _("Input"), said: _("input gate"), key: "i", gate: true },
      { label: _("Forget"), said: _("forget gate"), key: "f", gate: true },
      { label: _("Output"), said: _("output gate"), key: "o", gate: true },
      { label: _("Cell"), said: _("cell state"), key: "c", ink: "--keyword" },
    ],
    known: [
      [_("what is left of a line"), ...clock],
      [_("characters of the line"), ...counter],
      [_("characters of the speech"), 1, 106],
    ],
    held: { label: _("Forget gate"), key: "f" },
    text: live.speeches,
    legend: _("A bar for each gate, from 0 to 1, and one for the cell state. Where the input gate is closed and the forget gate is open, the cell state passes unchanged. Point at a character, or choose with the controls."),
    observations: [
      [_("Layer 2, cell 57 knows what is left of a line. The first two letters of “The king” fill it, to 1.90. From then on its input gate is nearly closed, and inside a word its forget gate is near 1 (0.98 on average): the state stays. Each space takes a part of it."), clock, 61],
      [_("The network ends its lines with this cell. If its forget gate is always open, the line seems to have only begun, and the probability of a line break after “now?” falls from 77 to 22 %."), clock, 42, 2],
      [_("Layer 2, cell 86 counts characters: it is at 26.8 after “deposed”, and at the line break its forget gate closes to 0.02. But its hidden state, the tanh of the count, is nearly 1 from 3 on, so the rest of the network cannot read the count. With its forget gate always closed the loss is still 1.41 nats: this cell counts in vain."), counter, 101],
    ],
    ...poems,
  });
};
