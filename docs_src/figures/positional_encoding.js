// The hands of a positional encoding: one of them along all positions, and all of them at one.
stages.clocks = ({ turns, length, left, step, middle, high }, { hand, position }, parts) => {
  const at = (p, value) => [left + p * step, middle - value * high];
  for (const [name, wave] of [["sine", Math.sin], ["cosine", Math.cos]]) {
    const points = Array.from({ length }, (_, p) => at(p, wave(turns[hand] * p)).map(short).join(" "));
    parts(name)[0].setAttribute("d", `M${points.join("L")}`);
    const [x, y] = at(position, wave(turns[hand] * position));
    parts(`${name}-dot`)[0].setAttribute("cx", short(x));
    parts(`${name}-dot`)[0].setAttribute("cy", short(y));
  }
  parts("hand").forEach((line, i) => {
    line.setAttribute("transform", `rotate(${short(((turns[i] * position * 180) / Math.PI) % 360)})`);
    line.parentElement.classList.toggle("p-t1", i === hand);
    line.parentElement.classList.toggle("p-t4", i !== hand);
  });
  const [sine, cosine] = [Math.sin, Math.cos].map((wave) => wave(turns[hand] * position).toFixed(2));
  const time = (2 * Math.PI) / turns[hand];
  const once = time < 100 ? short(time) : grouped(Math.round(time));
  return _("Hand {0} goes round once in {1} positions. At position {2} it shows {3} and {4}.", hand, once, position, sine, cosine);
};
