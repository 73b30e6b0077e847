/** Goes on with an answer: in the same call when it is there, so that what is known in memory costs no promise. */
export function whenKnown<Known, Result>(
  value: Known | Promise<Known>,
  goOn: (known: Known) => Result | Promise<Result>,
): Result | Promise<Result> {
  return value instanceof Promise ? value.then((known) => goOn(known)) : goOn(value)
}
