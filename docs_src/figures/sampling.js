// The softmax of logits that are divided by a temperature: the likeliest ones, and all others.
stages.temperature = ({ logits, labels, scale }, { temperature }, parts) => {
  const powers = logits.map((logit) => Math.exp((logit - logits[0]) / temperature));
  const sum = powers.reduce((a, b) => a + b);
  const shares = powers.map((power) => power / sum);
  const shown = shares.slice(0, labels.length - 1);
  shown.push(shares.slice(labels.length - 1).reduce((a, b) => a + b));
  parts("bar").forEach((bar, i) => {
    const width = shown[i] * scale;
    bar.setAttribute("width", short(width));
    bar.nextElementSibling.setAttribute("x", short(bar.x.baseVal.value + width + 5));
    bar.nextElementSibling.textContent = `${(shown[i] * 100).toFixed(1)} %`;
  });
  const nats = shares.reduce((all, share) => all - (share && share * Math.log(share)), 0);
  return _("As undecided as between {0} letters that are equally likely.", Math.exp(nats).toFixed(1));
};
