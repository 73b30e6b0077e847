/** What is started ends with the test file that started it: each helper that starts something registers its end here. */

/** Gateways end before what they stand on. */
const gateways: (() => unknown)[] = []
const others: (() => unknown)[] = []

/** Ends at the end of the test file, before backends, stores and folders. Ending must be possible twice. */
export const gatewayEnds = (end: () => unknown): void => void gateways.push(end)

/** Done at the end of the test file, after gateways have ended. */
export const atEnd = (end: () => unknown): void => void others.push(end)

/** Runs after each test file, and at the end of scripts that are no tests. */
export async function endAll(): Promise<void> {
  for (const list of [gateways, others]) await Promise.all(list.splice(0).map((end) => end()))
}
