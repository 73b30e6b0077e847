/** Reads the gateway's own counters, outside the measured time. */

/** Sum of all samples of a counter, 0 where there is none. `admin`: scheme, host and port of the admin listener. */
export async function readCounter(admin: string, name: string): Promise<number> {
  const response = await fetch(`${admin}/metrics`)
  const text = await response.text()
  if (!response.ok) throw new Error(`${admin}/metrics answered ${response.status}`)
  const samples = text.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, 'gm'))
  return Array.from(samples, ([, value]) => Number(value)).reduce((sum, value) => sum + value, 0)
}
