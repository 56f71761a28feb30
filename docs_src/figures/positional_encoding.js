// The hands of a positional encoding: one of them large and along all positions, all of them at one, and their numbers.
stages.clocks = ({ turns, length, left, step, middle, high, large: [cx, cy, radius] }, { hand, position }, parts) => {
  const set = (part, values) => Object.entries(values).forEach(([name, value]) => part.setAttribute(name, value));
  const all = (name, change) => parts(name).forEach(change);
  const write = (name, words) => all(name, (part) => (part.textContent = words.replace("-", "−")));
  const two = (number) => number.toFixed(2).replace(/^-(0\.00)$/, "$1");
  const waves = [["sine", Math.sin], ["cosine", Math.cos]];
  const numbers = (angle) => waves.map(([, wave]) => wave(angle));

  const angle = turns[hand] * position, [sine, cosine] = numbers(angle);
  const [x, y] = [cx + radius * sine, cy - radius * cosine].map(short);
  all("large-hand", (part) => set(part, { d: `M${cx} ${cy}L${x} ${y}` }));
  all("large-sine", (part) => set(part, { d: `M${cx} ${cy}L${x} ${cy}` }));
  all("large-cosine", (part) => set(part, { d: `M${x} ${cy}L${x} ${y}` }));
  all("large-tip", (part) => set(part, { cx: x, cy: y }));
  write("angle", two(angle));
  write("sine-number", two(sine));
  write("cosine-number", two(cosine));

  const at = (p, value) => [left + p * step, middle - value * high];
  for (const [name, wave] of waves) {
    const points = Array.from({ length }, (_, p) => at(p, wave(turns[hand] * p)).map((place) => Number(short(place))));
    const moves = points.slice(1).map(([x, y], p) => `${short(x - points[p][0])} ${short(y - points[p][1])}`);
    all(name, (part) => set(part, { d: `M${points[0].join(" ")}l${moves.join(" ")}` }));
    const [cx, cy] = at(position, wave(angle)).map(short);
    all(`${name}-dot`, (part) => set(part, { cx, cy }));
  }

  all("hand", (line, i) => {
    line.setAttribute("transform", `rotate(${short(((turns[i] * position * 180) / Math.PI) % 360)})`);
  });
  all("dial", (dial, i) => {
    dial.classList.toggle("p-t5", i === hand);
    dial.classList.toggle("p-t4", i !== hand);
  });
  const row = turns.flatMap((turn) => numbers(turn * position));
  all("cell", (cell, i) => set(cell, { "fill-opacity": (0.05 + 0.35 * Math.abs(row[i])).toFixed(2) }));
  all("n", (number, i) => (number.textContent = two(row[i]).replace("-", "−")));
  all("frame", (frame) => set(frame, { x: 48 * (hand % 6) - 1, y: 21 + 58 * Math.floor(hand / 6) }));

  const time = (2 * Math.PI) / turns[hand];
  const once = time < 100 ? short(time) : grouped(Math.round(time));
  return _("Hand {0} goes round once in {1} positions. At position {2} it shows {3} and {4}.", hand, once, position, sine.toFixed(2), cosine.toFixed(2));
};
