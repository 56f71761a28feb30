// What the panels of all pages share: a frame that fits one screen, elements, slices of work, maps,
// distributions, writing on.
"use strict";
{
  const live = (window.pylit.live ??= {});
  const { _ } = window.pylit;
  const base = new URL(".", document.currentScript.src);

  // An element with properties, attributes (`data-…`, `aria-…`, `role`, `for`) and children.
  const el = (tag, properties = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name in element) element[name] = value;
      else element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  };

  // Runs a generator for 8 ms of each frame, so that typing stays responsive. A page in the
  // background has no frames, and does nothing. `stale` ends it early.
  const slices = async (work, stale = () => false) => {
    for (;;) {
      await new Promise(requestAnimationFrame);
      for (const begun = performance.now(); performance.now() - begun < 8;) {
        if (stale()) return null;
        const { done, value } = work.next();
        if (done) return value;
      }
    }
  };

  const visible = (letter) => ({ " ": "␣", "\u3000": "␣", "\n": "↵" })[letter] ?? letter;
  const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}\u00a0%`;
  const joined = (parts) => parts.join(_(", "));
  // A large number, as the language of the page writes it.
  const grouped = (number) => number.toLocaleString(document.documentElement.lang);
  const quoted = (token, model) => `“${visible(model.characters[token])}”`;

  const slider = (label, { min, max, step = 1, value, say = String }, changed) => {
    const shown = el("output", { value: say(value) });
    const input = el("input", { type: "range", min, max, step });
    input.value = value;
    input.oninput = () => {
      shown.value = say(input.valueAsNumber);
      input.setAttribute("aria-valuetext", shown.value);
      changed(input.valueAsNumber);
    };
    // Moves the slider without telling `changed`.
    const set = (number) => { input.value = number; shown.value = say(input.valueAsNumber) };
    return Object.assign(el("label", { className: "knob" }, el("span", {}, label), input, shown), { input, set });
  };

  const select = (label, options, changed) => {
    const input = el("select", { onchange: () => changed(input.selectedIndex) });
    input.append(...options.map((text) => el("option", {}, text)));
    return Object.assign(el("label", { className: "knob" }, el("span", {}, label), input), { input });
  };

  const button = (text, onclick) => el("button", { type: "button", onclick }, text);

  // Says why an input was refused. Until it says nothing, what is shown of the input before is dimmed.
  const fault_line = () => {
    const line = el("p", { className: "fault", role: "alert" });
    const say = (text) => {
      line.textContent = text;
      line.closest(".live")?.classList.toggle("refused", text !== "");
    };
    return Object.assign(line, { say });
  };

  // A text field with examples. `changed(tokens)` gets tokens of `least` to `most` characters;
  // anything else gets a sentence. `encode` makes tokens of a text.
  const text_field = (model, { examples, most, value = examples[0], label = _("Text, up to {0} characters", most), encode = live.encode }, changed) => {
    const fault = fault_line();
    const input = el("textarea", { rows: 2, spellcheck: false, value });
    const read = () => {
      try {
        const text = input.value;
        if (!text) throw new RangeError(_("The text is empty; type a character, or choose an example."));
        if (text.length > most)
          throw new RangeError(_("The text has {0} characters, but the limit here is {1}; remove {2}.", text.length, most, text.length - most));
        const tokens = encode(text, model);
        fault.say("");
        changed(tokens);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        fault.say(error.message);
      }
    };
    input.oninput = read;
    const set = (text) => { input.value = text; read() };
    const chooser = select(_("Example"), [_("Choose …"), ...examples.map((one) => one.replace(/\n/g, " "))], (i) => {
      if (i) set(examples[i - 1]);
    });
    const field = el("div", { className: "field" }, el("label", {}, el("span", {}, label), input), chooser, fault);
    return Object.assign(field, { set, read, input });
  };

  // Colours come from the theme, so drawings are made anew when it changes.
  const drawings = new Set();
  const redraw = () => drawings.forEach((draw) => draw());
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  // A map of numbers between -1 and 1, row by row. `set(rows, columns, value, row)` draws;
  // `chosen(row, column)` hears of the cell under the pointer.
  const heat_map = (alt, chosen) => {
    const canvas = el("canvas", { role: "img" });
    canvas.setAttribute("aria-label", alt);
    let rows = 1, columns = 1, value = () => 0, marked = -1;
    const draw = () => {
      const wide = Math.max(1, Math.round(canvas.clientWidth * devicePixelRatio));
      const high = Math.max(1, Math.round(canvas.clientHeight * devicePixelRatio));
      Object.assign(canvas, { width: wide, height: high });
      const context = canvas.getContext("2d"), style = getComputedStyle(canvas);
      const [positive, negative] = [style.color, style.outlineColor];
      for (let i = 0; i < rows; i++)
        for (let j = 0; j < columns; j++) {
          const number = value(i, j);
          if (!number) continue;
          context.globalAlpha = Math.min(1, Math.abs(number));
          context.fillStyle = number > 0 ? positive : negative;
          const x = Math.floor((j * wide) / columns), y = Math.floor((i * high) / rows);
          const right = Math.floor(((j + 1) * wide) / columns), below = Math.floor(((i + 1) * high) / rows);
          context.fillRect(x, y, right - x, below - y);
        }
      if (marked < 0) return;
      context.globalAlpha = 1;
      context.strokeStyle = style.borderTopColor;
      context.lineWidth = devicePixelRatio;
      context.strokeRect(0.5, Math.floor((marked * high) / rows) + 0.5, wide - 1, Math.max(2, high / rows - 1));
    };
    if (chosen)
      canvas.onpointermove = canvas.onpointerdown = ({ offsetX, offsetY }) => {
        const at = (offset, size, count) => Math.max(0, Math.min(count - 1, Math.floor((offset / size) * count)));
        chosen(at(offsetY, canvas.clientHeight, rows), at(offsetX, canvas.clientWidth, columns));
      };
    drawings.add(draw);
    new ResizeObserver(draw).observe(canvas);
    const set = (...values) => { [rows, columns, value, marked = -1] = values; draw() };
    return Object.assign(canvas, { set });
  };

  // A row of letters. `set(tokens, shares, at)` shades them and marks one; `chosen(i)` hears which
  // one is under the pointer. The slider beside it does the same for the keyboard.
  const letters = (label, model, chosen) => {
    const strip = el("p", { className: "letters", role: "img" });
    const choose = (event) => {
      const i = [...strip.children].indexOf(event.target);
      if (i >= 0) chosen(i);
    };
    strip.onpointerover = strip.onpointerdown = choose;
    const set = (tokens, shares = [], at = -1) => {
      strip.setAttribute("aria-label", label);
      strip.replaceChildren(...tokens.map((token, i) => {
        const letter = el("span", { className: i === at ? "at" : "" }, visible(model.characters[token]));
        if (shares[i]) letter.style.setProperty("--share", `${Math.round(100 * Math.min(1, Math.abs(shares[i])))}%`);
        if (shares[i] < 0) letter.classList.add("minus");
        return letter;
      }));
    };
    return Object.assign(strip, { set });
  };

  // Arcs from one letter to the letters that it attends to, wider for larger weights. `chosen(i)` hears
  // which letter is under the pointer.
  const arcs = (chosen) => {
    const space = "http://www.w3.org/2000/svg", high = 96;
    let step;
    const svg = document.createElementNS(space, "svg");
    const make = (name, attributes, text = "") => {
      const element = document.createElementNS(space, name);
      for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
      element.textContent = text;
      return element;
    };
    const box = el("div", { className: "arcs", tabIndex: 0, role: "group" }, svg);
    box.setAttribute("aria-label", _("Lines from the query to the keys that it attends to"));
    const set = (labels, weights, at) => {
      // Chinese characters are wider than letters.
      step = labels.some((label) => label > "\u3000") ? 17 : 13;
      const wide = labels.length * step;
      for (const [key, value] of [["width", wide], ["height", high + 34], ["aria-hidden", true]]) svg.setAttribute(key, value);
      const x = (i) => (i + 0.5) * step;
      const paths = [...weights].flatMap((weight, i) => {
        if (weight < 0.02) return [];
        const bend = high - Math.min(high - 6, 14 + Math.abs(at - i) * 6);
        const d = i === at ? `M${x(i)} ${high}m-4 0a4 4 0 1 1 8 0` : `M${x(at)} ${high}Q${(x(at) + x(i)) / 2} ${2 * bend - high} ${x(i)} ${high}`;
        return [make("path", { d, "stroke-width": 1 + 5 * weight, "stroke-opacity": 0.25 + 0.75 * weight })];
      });
      const under = [...weights].map((weight, i) =>
        make("rect", { x: i * step, y: high + 4, width: step, height: 20, "fill-opacity": 0.55 * weight }));
      svg.replaceChildren(...under, ...paths, ...labels.map((letter, i) =>
        make("text", { x: x(i), y: high + 18, class: i === at ? "at" : "" }, letter)));
      box.scrollLeft = x(at) - box.clientWidth / 2;
    };
    box.onpointerover = box.onpointerdown = ({ target, clientX }) => {
      if (target.closest("rect, text")) chosen(Math.floor((clientX - svg.getBoundingClientRect().left) / step));
    };
    return Object.assign(box, { set });
  };

  // Bars with names: `set([[name, share, note], …])`.
  const bars = () => {
    const list = el("ol", { className: "shares" });
    const set = (rows) => list.replaceChildren(...rows.map(([name, share, note = ""]) => {
      const bar = el("i", {});
      bar.style.width = `${100 * share}%`;
      return el("li", {}, el("b", {}, name), el("span", {}, bar), percent(share) + note);
    }));
    return Object.assign(list, { set });
  };

  // The likeliest next tokens, and what they were before a change.
  const likeliest = (model) => {
    const list = bars(), { set } = list;
    const name = (token) => (model.characters[token] ? visible(model.characters[token]) : _("end"));
    list.set = (shares, before = shares) => {
      const order = [...shares.keys()].sort((a, b) => shares[b] - shares[a]).slice(0, 6);
      const first = before.indexOf(Math.max(...before));
      if (!order.includes(first)) order[5] = first;
      set(order.map((token) =>
        [name(token), shares[token], before === shares ? "" : ` ${_("(before: {0})", percent(before[token]))}`]));
    };
    return list;
  };

  // Reads tokens one by one; each result of `step(token, state)` has the next state.
  const reading = function* (tokens, step, state) {
    const results = [];
    for (const token of tokens) {
      results.push(step(token, state));
      ({ state } = results.at(-1));
      yield;
    }
    return results;
  };
  // The mean loss of a text in nats per character, from the results of reading it.
  const loss_of = (tokens, results) => {
    const losses = tokens.slice(1).map((token, t) => -Math.log(live.softmax(results[t].logits)[token]));
    return losses.reduce((a, b) => a + b, 0) / Math.max(1, losses.length);
  };

  // The first lines of the panels whose models read one character after the other.
  const examples = [
    "KING RICHARD II:\nWhat must the king do now? must he submit?\n\nROMEO:\nBut, soft! what light",
    "JULIET:\nO Romeo, Romeo! wherefore art thou Romeo?",
  ];

  // Writing on, token by token, after the tokens of `read()`. `step(token, state)` returns `{logits,
  // state}`, as does `begin()` where reading takes more than steps, `wrote(tokens, result)` hears of each token, and `end` is a token that ends the text.
  // `rule(tokens)` says what may come next: a `token` that must, tokens that are `banned`, or that the text is `over`; then `done(tokens)` hears of it.
  // `say` makes a text of tokens, and `more` counts the seed on, so that each press writes another text.
  const writer = (model, { read = () => [], step, begin, wrote = () => {}, end = -1, banned = [], n = 200, label = _("Write on"), more = false,
    rule = () => ({ banned }), say = (tokens) => live.decode(tokens, model), done = () => {} }) => {
    begin ??= () => {
      let result;
      for (const token of read()) result = step(token, result?.state);
      return result;
    };
    const options = { temperature: 0.8, p: 0.95, k: 40 };
    const output = el("output", { className: "written" });
    const speed = el("p", { className: "small" });
    const seed = el("input", { type: "number", value: "1", min: 0, step: 1 });
    let run = 0, running = false;
    const finish = () => { running = false; start.textContent = label };
    const work = function* () {
      const random = live.random(seed.valueAsNumber || 0), tokens = [];
      let spent = 0, result = begin();
      for (let i = 0; result && i < n; i++) {
        const begun = performance.now(), next = rule(tokens);
        if (next.over) break;
        const logits = result.logits.map((logit, token) => (next.banned?.includes(token) ? -Infinity : logit));
        const token = next.token ?? live.sample(logits, options, random);
        if (token === end) break;
        tokens.push(token);
        result = step(token, result.state);
        spent += performance.now() - begun;
        output.value = say(tokens);
        wrote(tokens, result);
        speed.textContent = _("{0} tokens, {1} ms a token on this device.", tokens.length, (spent / tokens.length).toFixed(2));
        yield;
      }
      if (more) seed.value = +seed.value + 1;
      done(tokens);
    };
    const start = button(label, async () => {
      const own = ++run;
      if (running) return finish();
      running = true;
      start.textContent = _("Stop");
      await slices(work(), () => own !== run);
      if (own === run) finish();
    });
    const stop = () => { run++; finish() };
    const settings = el("details", {}, el("summary", {}, _("Sampling")),
      slider(_("Temperature"), { min: 0, max: 1.5, step: 0.1, value: 0.8, say: (t) => t.toFixed(1) }, (t) => { options.temperature = t }),
      slider(_("Top-k"), { min: 1, max: 65, value: 40 }, (k) => { options.k = k }),
      slider(_("Nucleus"), { min: 0.1, max: 1, step: 0.05, value: 0.95, say: (p) => p.toFixed(2) }, (p) => { options.p = p }),
      el("label", { className: "knob" }, el("span", {}, _("Seed")), seed));
    return Object.assign(el("div", { className: "writer" }, settings, start, output, speed), { stop });
  };

  // Things to see, each a card with a sentence and a button that shows it. `observations.show(i)` shows one.
  const observations = (all) => {
    const cards = all.map(([sentence, act]) => {
      const show = button(_("Show"), () => {
        cards.forEach((card) => { card.lastChild.ariaPressed = card.lastChild === show });
        act();
      });
      Object.assign(show, { ariaLabel: _("Show: {0}", sentence), ariaPressed: false });
      return el("li", {}, el("span", {}, sentence.replaceAll(" %", "\u00a0%")), show);
    });
    const list = el("ol", { className: "observations" }, ...cards);
    list.setAttribute("aria-label", _("Observations"));
    return Object.assign(list, { show: (i) => cards[i].lastChild.click() });
  };

  const pair = (...children) => el("div", { className: "sides" }, ...children);
  const group = (title, ...children) => el("section", {}, el("h4", {}, title), ...children);

  // One screen: the input, what there is to see, and beside one another what a reader changes, what it
  // changes, and the outcome. A phone stacks them, and the outcome stays at the bottom of its window.
  // `first` is the observation that is shown at first. What comes `after` stands below the outcome or,
  // where the view is low, `under` it.
  const lay_out = (panel, { input, seen, first = 0, under = false, controls, view, outcome, after = [], foot = [] }) => {
    const part = (className, children) => el("div", { className }, ...[children].flat());
    const work = part(under ? "work under" : "work", [part("controls", controls), part("view", view), part("outcome", outcome), part("after", after)]);
    panel.append(part("input", input), seen, work, part("footnote", foot));
    // What was shown is no longer shown once a reader changes something.
    for (const sign of ["input", "change"])
      panel.addEventListener(sign, () => seen.querySelectorAll("button").forEach((show) => { show.ariaPressed = false }));
    seen.show(first);
  };

  // The page's script calls this when the button is pressed, when the panel's section is the address
  // (`from` is "address"), and when a reader comes near. The script of the panel sets `live.panel`:
  // what it needs, its `weights` where there is a second model, and a function that fills a section.
  // That second model has read `poems`; on a Chinese page it comes first, and a reader may choose.
  let loaded;
  const both = () => document.documentElement.lang.startsWith("zh") && "poems" in live.panel;
  const scripts = async (...names) => { for (const name of names) await window.pylit.load(`live/${name}.js`) };
  const model_scripts = ({ weights = [], poems }, chinese) => (chinese ? ["poems", poems, "weights/verse", `weights/${poems}`] : weights);
  const load = async (name) => {
    const style = el("link", { rel: "stylesheet", href: new URL("live.css", base) });
    const styled = new Promise((onload, onerror) => Object.assign(style, { onload, onerror }));
    document.head.append(style);
    await scripts("tensors", name);
    await scripts(...live.panel.needs, ...model_scripts(live.panel, both()));
    await styled;
  };
  // `put(panel)` brings it into the page, where it is filled; returns its title.
  const show = (put, chinese) => {
    const own = chinese ? live.panel.of_poems() : undefined;
    const title = el("h3", { id: "live", tabIndex: -1 }, own?.title ?? live.panel.title);
    const panel = el("section", { className: "live" }, title);
    panel.setAttribute("aria-labelledby", "live");
    if (both())
      panel.append(live.choice(chinese, async (other) => {
        await scripts(...model_scripts(live.panel, other));
        show((made) => panel.replaceWith(made), other).nextSibling.querySelector("select").focus();
      }));
    put(panel);
    live.panel.fill(panel, own);
    return title;
  };
  const open = async (pressed, from) => {
    const place = pressed.closest("figure"), section = place.closest(".s") ?? place;
    try {
      await (loaded ??= load(pressed.dataset.live));
    } catch {
      loaded = undefined;
      if (from === "near") return;
      place.after(el("p", { role: "alert" }, _("The model could not be loaded; reload the page and try again.")));
      return;
    }
    // Nothing that a reader sees moves unasked: the panel opens below the window, or above it.
    const { bottom } = section.getBoundingClientRect();
    if (!pressed.isConnected || (from === "near" && bottom > 0 && bottom < innerHeight)) return;
    pressed.parentElement.remove();
    const title = show((panel) => section.after(panel), both());
    if (from === "near") return;
    title.focus({ preventScroll: true });
    title.parentElement.scrollIntoView();
  };

  // The names of all heads, layer by layer.
  const head_names = ({ config: { n_layers, heads } }) => Array.from({ length: n_layers * heads },
    (none, i) => _("layer {0}, head {1}", Math.floor(i / heads) + 1, (i % heads) + 1));

  const about = (model) => el("p", { className: "small" },
    _("{0} parameters, each stored in one byte (int8, with a scale for each row of a matrix), trained on Tiny Shakespeare. Loss on the part that was held back: {1} nats per character before the rounding to bytes, {2} after it.",
      grouped(model.parameters), model.loss.before.toFixed(3), model.loss.after.toFixed(3)));

  // What a panel of Shakespeare says and does otherwise than one of poems, see `poems.js`.
  const shakespeare = { text: { examples }, written: _("Write on"), about, writer: (model, field, step, read) => writer(model, { read, step }) };

  Object.assign(live, { el, slices, visible, percent, joined, grouped, quoted, head_names, slider, select, button, text_field, heat_map, letters,
    fault_line, lay_out, arcs, bars, likeliest, reading, loss_of, examples, writer, observations, pair, group, open, about, shakespeare });
}
