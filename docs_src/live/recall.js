// The recall game: the reader writes pairs, and six small models answer side by side.
"use strict";
const recall = [
  [_("Elman network"), "elman", "elman"],
  ["LSTM", "lstm", "lstm"],
  [_("Transformer"), "attention", "autoregressive"],
  [_("Linear attention"), "linear_attention", "linear_attention"],
  ["Mamba-2", "mamba2", "mamba2"],
  ["DeltaNet", "delta_net", "delta_net"],
];
live.panel = {
  title: _("The recall game: six memories"),
  needs: [...recall.map(([, , script]) => script), ...recall.map(([, name]) => `weights/recall_${name}`)],
};
// The numbers that a model keeps. What a step reports besides its state does not count.
live.panel.kept = ["h", "c", "caches", "keys", "values", "memories", "recent"];
live.panel.count = (state) => (ArrayBuffer.isView(state) ? state.length
  : Object.entries(state).reduce((sum, [name, part]) =>
    sum + (Array.isArray(state) || live.panel.kept.includes(name) ? live.panel.count(part) : 0), 0));
live.panel.fill = (panel) => {
  const { el, percent, joined, grouped, slices, softmax, button, group } = live, { count } = live.panel;
  const most = 20, alphabet = "abcdefghijklmnopqrstuvwxyz", digits = "0123456789";
  const pick = (some) => some[Math.floor(Math.random() * some.length)];

  const models = recall.map(([title, name, script]) => {
    const model = live.models[`recall_${name}`], { step } = live[script];
    return { title, model, read: (text, state) => {
      let result = { state };
      for (const token of live.encode(text, model)) result = step(model, token, result.state);
      return result;
    } };
  });

  // ## A line
  let pairs = [], asked = "", answers = [], run = 0;
  const last_of = (letter) => pairs.findLast((pair) => pair[0] === letter)[1];
  const known = () => [...new Set(pairs.map(([letter]) => letter))];
  const written = (some) => some.map((pair) => pair.join("")).join(" ");

  // Each model reads the line once, and is then asked for each letter from the same state.
  const answer = function* () {
    const found = [];
    for (const { model, read } of models) {
      const { state } = read(pairs.flat().join(""));
      const given = {};
      for (const letter of known()) {
        // A cache of attention grows in place, so each question gets a copy.
        const shares = softmax(read(letter, structuredClone(state)).logits).subarray(0, digits.length);
        const digit = shares.indexOf(Math.max(...shares));
        given[letter] = { digit: model.characters[digit], share: shares[digit] };
        yield;
      }
      found.push({ given, size: count(state) });
    }
    return found;
  };
  const compute = async () => {
    const own = ++run;
    const found = await slices(answer(), () => own !== run);
    if (own !== run) return;
    answers = found;
    show();
    panel.dataset.ready = own;
  };

  // ## The score
  // A question counts once for a line. A line that is being typed does not count.
  let counts = false, last_counted = "", marks = [];
  const mark = () => {
    const question = `${written(pairs)} ${asked}`;
    if (question === last_counted) return;
    last_counted = question;
    marks = [...marks, answers.map(({ given }) => given[asked].digit === last_of(asked))].slice(-20);
  };

  const fault = live.fault_line();
  const input = el("textarea", { rows: 2, spellcheck: false, autocapitalize: "none" });
  const read = () => {
    let text = input.value.replace(/[\s,;]/g, "").toLowerCase();
    // A letter at the end is the question, or the beginning of another pair.
    const [, last] = /[0-9]([a-z])$/.exec(text) ?? [];
    if (last) text = text.slice(0, -1);
    const stranger = [...text].find((one) => !alphabet.includes(one) && !digits.includes(one));
    const found = [...text.matchAll(/([a-z])([0-9])/g)].map(([, ...pair]) => pair);
    if (stranger) fault.say(_("“{0}” is neither a letter from a to z nor a digit; write pairs like a3 b7.", stranger));
    else if (!text) fault.say(_("The line is empty; write pairs like a3 b7, or press “New pairs”."));
    else if (written(found).replaceAll(" ", "") !== text) fault.say(_("Each letter needs one digit after it, as in a3 b7."));
    else if (found.length > most) fault.say(_("The line has {0} pairs, but the limit is {1}; remove {2}.", found.length, most, found.length - most));
    else {
      fault.say("");
      pairs = found;
      if (known().includes(last)) asked = last;
      if (!known().includes(asked)) asked = pairs[0][0];
      ask_for();
      compute();
    }
  };
  input.oninput = () => { counts = false; read() };

  // Writes a line and asks for one of its letters.
  const set = (some, letter, counted = true) => {
    [input.value, asked, counts] = [written(some), letter, counted];
    read();
  };
  const fresh = (n) => {
    const some = [], left = [...alphabet];
    for (let i = 0; i < n; i++) some.push([left.splice(Math.floor(Math.random() * left.length), 1)[0], pick(digits)]);
    return some;
  };
  const new_pairs = (n) => {
    const some = fresh(n);
    set(some, pick(some)[0]);
  };
  const overwrite = () => {
    const letter = pick(known()), old = last_of(letter);
    const some = [...pairs, [letter, pick([...digits].filter((one) => one !== old))]];
    // A full line loses another pair, so that the letter still comes twice.
    if (some.length > most) some.splice(Math.max(0, some.findIndex((pair) => pair[0] !== letter)), 1);
    set(some, letter);
  };

  // ## What is shown
  const letters = el("div", { className: "row", role: "group" });
  letters.setAttribute("aria-label", _("Ask for a letter"));
  const ask_for = () => letters.replaceChildren(...known().sort().map((letter) => {
    const one = button(letter, () => { [asked, counts] = [letter, true]; press(); compute() });
    return Object.assign(one, { ariaLabel: _("Ask for {0}", letter) });
  }));
  const press = () => {
    for (const one of letters.children) one.ariaPressed = one.textContent === asked;
  };
  const sentence = el("p", { className: "result" });
  sentence.setAttribute("aria-live", "polite");
  const rows = models.map(({ title }) => {
    const [size, digit, share, line, score] = ["small", "", "small", "", ""].map((className) => el("span", { className }, "…"));
    digit.replaceChildren(el("b", {}, "…"));
    const heading = el("th", { scope: "row" }, title, size);
    return { row: el("tr", {}, heading, el("td", {}, digit, share), el("td", {}, line), el("td", {}, score)), size, digit, share, line, score };
  });
  const heads = [_("Model, and numbers that it keeps"), _("Answer"), _("This line"), _("Score")].map((name) => el("th", { scope: "col" }, name));
  const table = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows.map(({ row }) => row)));
  const sign = (right) => el("span", { role: "img", ariaLabel: right ? _("right") : _("wrong") }, right ? "✓" : "✗");

  const show = () => {
    press();
    if (counts) mark();
    const truth = last_of(asked), right = [], wrong = [];
    rows.forEach(({ row, size, digit, share, line, score }, m) => {
      const { given, size: numbers } = answers[m], one = given[asked], knows = one.digit === truth;
      (knows ? right : wrong).push(knows ? models[m].title : `${models[m].title} (${one.digit})`);
      row.className = knows ? "right" : "wrong";
      size.textContent = _("{0} numbers", grouped(numbers));
      digit.replaceChildren(el("b", {}, one.digit), " ", sign(knows));
      share.textContent = percent(one.share);
      const all = known();
      line.textContent = _("{0} of {1}", all.filter((letter) => given[letter].digit === last_of(letter)).length, all.length);
      score.textContent = marks.length ? _("{0} of {1}", marks.filter((mark) => mark[m]).length, marks.length) : "–";
    });
    sentence.textContent = !wrong.length ? _("{0} is {1}. All six models are right.", asked, truth)
      : !right.length ? _("{0} is {1}. All six models are wrong.", asked, truth)
        : _("{0} is {1}. Right: {2}. Wrong: {3}.", asked, truth, joined(right), joined(wrong));
  };

  const small = models.map(({ model }) => model.parameters);
  const thousands = (number) => grouped(1000 * Math.round(number / 1000));
  const from_line = (line, letter) => () => {
    set(line.split(" ").map((pair) => [...pair]), letter, false);
  };
  live.lay_out(panel, {
    input: el("div", { className: "field" }, el("label", {}, el("span", {}, _("Pairs, up to {0}", most)), input),
      el("div", { className: "row" },
        button(_("New pairs"), () => new_pairs(pairs.length || 6)),
        button(_("More pairs"), () => new_pairs(Math.min(most, (pairs.length || 2) + 4))),
        button(_("Fewer pairs"), () => new_pairs(Math.max(2, (pairs.length || 8) - 4))),
        button(_("Overwrite one"), () => { if (pairs.length) overwrite() })),
      fault),
    seen: live.observations([
      [_("Three pairs are few. The four models with a list or a matrix know them all. The Elman network and the LSTM answer 6, the digit that came twice, whatever you ask: their vectors know which digits came, but not whose."), from_line("a6 r5 z6", "r")],
      [_("Twenty pairs are many. The transformer knows all of them, but it keeps 5,120 numbers. The matrices are smaller, and some begin to fail: DeltaNet knows 18, and Mamba-2 15."), from_line("o9 r2 z9 x0 q8 s1 g0 f0 v3 p3 u9 b0 h7 e5 c7 w9 i3 a8 t3 d4", "x")],
      [_("Here k comes four times. Linear attention adds all four digits and answers 0, an old one. Mamba-2 answers 9, the one before the last. DeltaNet replaced them, and answers 5."), from_line("o7 k3 d6 e2 v4 k0 o1 k9 p3 d0 k5", "k")],
    ]),
    first: 1,
    controls: group(_("Ask for a letter"), letters,
      el("p", { className: "small" }, _("Write pairs of a letter and a digit. Each model reads them from left to right and is then asked for a letter, which you can choose below or write at the end of the line. If a letter comes twice, its last digit counts."))),
    view: el("div", { className: "table-scroll" }, table),
    outcome: sentence,
    after: el("p", { className: "small" }, _("“This line” counts the letters of this line that a model knows, and “Score” your last 20 questions, if you asked them with a button. A guess is right once in ten times.")),
    foot: el("p", { className: "small" }, _("Six models of {0} to {1} parameters, int8 with a scale per row. They were trained on such lines, of up to {2} pairs, and all lines were random. So whatever they know of yours is in their state.",
      thousands(Math.min(...small)), thousands(Math.max(...small)), most)),
  });
};
