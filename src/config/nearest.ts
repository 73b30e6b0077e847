/** The known word that a wrong one was most likely meant to be. */

/** Optimal string alignment: letters left out, put in, exchanged, or two neighbours swapped. */
const distance = (a: string, b: string): number => {
  const rows = [Array.from({ length: b.length + 1 }, (_, index) => index)]
  const at = (row: number, column: number): number => rows[row]?.[column] ?? Infinity
  for (let row = 1; row <= a.length; row++) {
    const costs = [row]
    for (let column = 1; column <= b.length; column++) {
      const isSame = a[row - 1] === b[column - 1]
      const isSwap = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      costs[column] = Math.min(
        at(row - 1, column) + 1,
        (costs[column - 1] ?? Infinity) + 1,
        at(row - 1, column - 1) + (isSame ? 0 : 1),
        isSwap ? at(row - 2, column - 2) + 1 : Infinity,
      )
    }
    rows.push(costs)
  }
  return at(a.length, b.length)
}

/** `did you mean WORD? ` where one is near, whatever its case; else nothing. */
export const suggest = (word: string, known: readonly string[]): string => {
  const [best] = known
    .map((name) => ({ name, cost: distance(word.slice(0, 64).toLowerCase(), name.toLowerCase()) }))
    .filter(({ name, cost }) => cost <= Math.min(2, name.length / 2))
    .sort((a, b) => a.cost - b.cost)
  return best === undefined ? '' : `did you mean ${best.name}? `
}
