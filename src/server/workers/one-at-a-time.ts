/** Calls that come during a run share its result: a crowd of scrapers costs the workers no more than one. */
export function oneAtATime<Result>(make: () => Promise<Result>): () => Promise<Result> {
  let underway: Promise<Result> | undefined
  return () =>
    (underway ??= make().finally(() => {
      underway = undefined
    }))
}
