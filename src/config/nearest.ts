/** The known word that a wrong one was most likely meant to be. */

/** Number of letters to put in, leave out or exchange (Levenshtein), row by row. */
const distance = (a: string, b: string): number => {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (const letter of a) {
    let corner = row[0] ?? 0
    let left = corner + 1
    row = row.map((above, at) => {
      if (at > 0) left = Math.min(above + 1, left + 1, corner + (b[at - 1] === letter ? 0 : 1))
      corner = above
      return left
    })
  }
  return row[b.length] ?? 0
}

/** `did you mean WORD? ` where one is near, or one begins with the other, whatever the case; else nothing. */
export const suggest = (word: string, known: readonly string[]): string => {
  const wrong = word.slice(0, 64).toLowerCase()
  const costOf = (name: string): number =>
    Math.abs(wrong.length - name.length) < 4 && (name.startsWith(wrong) || wrong.startsWith(name))
      ? 1
      : distance(wrong, name)
  const [best] = known
    .map((name) => ({ name, cost: costOf(name.toLowerCase()) }))
    .filter(({ name, cost }) => cost <= Math.min(2, name.length / 2))
    .sort((a, b) => a.cost - b.cost)
  return best === undefined ? '' : `did you mean ${best.name}? `
}
