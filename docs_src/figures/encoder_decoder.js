// A small model writes its answer to a question: all six panels, and a sentence about the step in sight.
stages.writing = ({ answers, look, bar }, { question }, parts, step) => {
  const { asked, steps } = answers[question];
  const words = asked.length, candidates = steps[0].names.length;
  parts("asked").forEach((part, i) => (part.textContent = asked[i % words]));
  parts("look").forEach((part, i) => {
    const weight = steps[Math.floor(i / words)].weights[i % words];
    part.setAttribute("stroke-width", Math.max(weight * look, 0.7));
  });
  // In the panel of a step stands all that was written before it.
  const written = steps.flatMap((_, t) => steps.slice(0, t + 1).map((each) => each.input));
  parts("said").forEach((part, i) => (part.textContent = written[i]));
  steps.forEach(({ names, shares }, t) => {
    names.forEach((name, j) => {
      const i = t * candidates + j;
      parts("next")[i].textContent = name;
      parts("bar")[i].setAttribute("width", Math.max(shares[j] * bar, 0.5));
      parts("share")[i].setAttribute("x", 78 + shares[j] * bar);
      parts("share")[i].textContent = shares[j] % 1 ? shares[j].toFixed(3) : shares[j];
    });
  });
  const { input, weights, names } = steps[Math.round(step)];
  const most = asked[weights.indexOf(Math.max(...weights))];
  return _("After “{0}” it looks most at “{1}”, and writes “{2}”.", input, most, names[0]);
};
