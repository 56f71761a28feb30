// A bucket with two valves, word by word: the reader turns them.
stages.tap = ({ words, streams, steps, foot, high, full }, { number, other, drain }, parts, step) => {
  const set = (name, t, values) => Object.entries(values).forEach(([key, value]) => parts(name)[t].setAttribute(key, value));
  const write = (name, t, words) => (parts(name)[t].textContent = words);
  const now = steps.lastIndexOf(Math.round(step));
  let h = 0;
  let said = [];
  words.forEach((word, t) => {
    const delta = /\d/.test(word) ? number : other;
    const kept = Math.exp(-drain * delta), old = kept * h, added = delta * streams[t];
    const turn = short(90 * Math.min(delta, 1));
    for (const valve of [2 * t, 2 * t + 1]) {
      const part = parts("valve")[valve];
      part.setAttribute("transform", part.getAttribute("transform").replace(/\([\d.]+/, `(${turn}`));
    }
    set("out", t, { "stroke-width": short(Math.max(h - old, 0.7)) });
    const below = Math.min(old, full), above = Math.min(added, full - below);
    set("old", t, { y: short(foot - below * high), height: short(below * high) });
    set("new", t, { y: short(foot - (below + above) * high), height: short(above * high) });
    const d = parts("in")[t].getAttribute("d").replace(/V.*/, `V${short(foot - (below + above) * high)}`);
    set("in", t, { d, "stroke-width": short(Math.max(added, 0.7)) });
    set("at", t, { "stroke-opacity": Math.max(1 - Math.abs(step - steps[t]), 0) });
    h = old + added;
    write("plus", t, `+ ${added.toFixed(2)}`);
    write("left", t, `× ${kept.toFixed(2)}`);
    write("level", t, h.toFixed(2));
    write("delta", t, `Δ = ${delta}`);
    if (t === now) said = [word, h, old, added].map((one) => (one.toFixed ? one.toFixed(2) : one));
  });
  return _("After {0} the bucket holds {1}: {2} from before, {3} of this word.", ...said);
};
