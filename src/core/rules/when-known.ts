/** Continues with a value, in the same call if it is there already: what is known in memory costs no promise. */
export function whenKnown<Known, Result>(
  value: Known | Promise<Known>,
  goOn: (known: Known) => Result | Promise<Result>,
): Result | Promise<Result> {
  return value instanceof Promise ? value.then((known) => goOn(known)) : goOn(value)
}
