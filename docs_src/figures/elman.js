// *Hello* in four steps: the reader chooses the word, and how much of U there is.
stages.hello = ({ W, U, R, letters, words, foot, high, left, apart, wide, pale, strong }, { word, memory }, parts, step) => {
  const show = (number) => (number.toFixed(2) * 1 ? number.toFixed(2) : "0").replace("-", "\u2212");
  const list = (numbers) => `(${numbers.map((number) => show(number).replace(/\.?0+$/, "") || "0").join(", ")})`;
  const times = (matrix, vector) => matrix.map((row) => row.reduce((sum, weight, i) => sum + weight * vector[i], 0));
  const text = words[word];
  let state = [0, 0];
  const right = [...text].slice(0, -1).map((letter, t) => {
    const target = letters.indexOf(text[t + 1]);
    const fromLetter = W.map((row) => row[letters.indexOf(letter)]);
    const fromState = times(U, state).map((number) => number * memory);
    state = fromLetter.map((number, i) => Math.tanh(number + fromState[i]));
    const powers = times(R, state).map(Math.exp);
    const total = powers.reduce((a, b) => a + b);

    parts("word")[t].textContent = letter;
    parts("letter")[t].textContent = list(fromLetter);
    parts("memory")[t].textContent = list(fromState);
    parts("share")[t].textContent = `p = ${(powers[target] / total).toFixed(2)}`;
    parts("target")[t].setAttribute("x", wide * (t % 2) + left + 2 + target * apart);
    parts("at")[t].setAttribute("stroke-opacity", Math.max(1 - Math.abs(step - t), 0));
    state.forEach((number, i) => {
      parts("unit")[2 * t + i].textContent = show(number);
      parts("ground")[2 * t + i].setAttribute("fill-opacity", pale + strong * Math.abs(number));
    });
    powers.forEach((power, i) => {
      const bar = parts("bar")[4 * t + i];
      const height = Math.max((power / total) * high, 1);
      bar.setAttribute("y", foot - height);
      bar.setAttribute("height", height);
      bar.classList.toggle("p-t2", i === target);
      bar.classList.toggle("p-t4", i !== target);
    });
    return powers[target] / total;
  });
  const cost = -right.reduce((sum, p) => sum + Math.log(p), 0) / right.length;
  const now = Math.round(step);
  const [read, next, share] = [text.slice(0, now + 1), text[now + 1], right[now].toFixed(2)];
  const said = [read, next, share, text, cost.toFixed(2)];
  return _("After {0} the right letter, {1}, gets {2}. A letter of {3} costs {4} nats on average.", ...said);
};
