/** Whoever asks meanwhile gets the same: a crowd of scrapers costs the workers no more than one. */
export function oneAtATime<Result>(make: () => Promise<Result>): () => Promise<Result> {
  let underway: Promise<Result> | undefined
  return () =>
    (underway ??= make().finally(() => {
      underway = undefined
    }))
}
